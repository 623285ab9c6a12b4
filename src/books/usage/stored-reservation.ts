import { and, eq } from "drizzle-orm";
import { drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { reservations } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { type Hold, type ReservationRow, readLegs } from "../ledger/hold.ts";

export type ReservationKey = { environmentId: number; reservationId: string };
export const ofReservationKey = (value: ValueOf<ReservationKey>) =>
  and(eq(reservations.environmentId, value("environmentId")), eq(reservations.id, value("reservationId")));

const selectById = query((value: ValueOf<ReservationKey>) =>
  drizzle
    .select(
      fields(
        reservations,
        ...(["id", "event", "model", "legs", "state"] as const),
        ...(["createdAtMs", "expiresAtMs", "settledEventId", "requestHash"] as const),
      ),
    )
    .from(reservations)
    .where(ofReservationKey(value)),
);

/** The reservation with an id: at most one row. */
export function selectReservation(ctx: TenantCtx, reservationId: string): Statement<ReservationRow> {
  return selectById({ environmentId: ctx.environment.id, reservationId });
}

export function asHold(row: ReservationRow): Hold {
  return { id: row.id, legs: readLegs(row.legs) };
}

/** Whether it is committed, in time or late, or released. It can then not be committed. */
export function isClosed(row: ReservationRow): boolean {
  return row.state === "committed" || row.state === "released" || row.settledEventId !== null;
}

/** A late commit. The reservation stays expired, and cannot be committed by another event. */
export const commitLate = query((value: ValueOf<ReservationKey & { eventId: string }>) =>
  drizzle
    .update(reservations)
    .set({ settledEventId: value("eventId", reservations.settledEventId) })
    .where(ofReservationKey(value)),
);

export function reservationNotFound(): PurserError {
  return new PurserError(
    "reservation_not_found",
    "The application has no such reservation in this mode. Ids are compared exactly, and begin with `res_`.",
    { param: "reservationId" },
  );
}

export function reservationClosed(message: string): PurserError {
  return new PurserError("reservation_closed", message, { param: "reservationId" });
}
