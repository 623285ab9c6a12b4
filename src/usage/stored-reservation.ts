import { and, eq, sql } from "drizzle-orm";
import { fromSteps } from "../amounts/amount.ts";
import { selecting } from "../db/prepared.ts";
import { reservations } from "../db/schema.ts";
import { write } from "../db/statement.ts";
import { PurserError } from "../errors.ts";
import { type HeldLeg, type Hold, readLegs } from "../ledger/holds.ts";
import type { Ctx } from "../runtime.ts";

const columns = {
  id: reservations.id,
  userId: reservations.userId,
  event: reservations.event,
  model: reservations.model,
  legs: reservations.legs,
  state: reservations.state,
  expiresAtMs: reservations.expiresAtMs,
  settledEventId: reservations.settledEventId,
  requestHash: reservations.requestHash,
};
export type ReservationRow = Pick<typeof reservations.$inferSelect, keyof typeof columns>;

const selectReservation = selecting(
  columns,
  reservations,
  and(eq(reservations.environmentId, sql.placeholder("environmentId")), eq(reservations.id, sql.placeholder("id"))),
);

/** The reservation by its id: at most one row. */
export function storedReservation(ctx: Ctx, reservationId: string) {
  return selectReservation(ctx.db, { environmentId: ctx.environment.id, id: reservationId });
}

export function asHold(row: ReservationRow): Hold {
  return { id: row.id, legs: readLegs(row.legs) };
}

/** What a balance holds, without what it was left with. */
export function presentLeg({ balanceId, packId, unit, amountSteps }: HeldLeg) {
  return { balanceId, packId, unit, amount: fromSteps(unit, amountSteps) };
}

/** Whether it was committed, in time or late, or released: then it takes no commit. */
export function isClosed(row: ReservationRow): boolean {
  return row.state === "committed" || row.state === "released" || row.settledEventId !== null;
}

/** The statement of a late commit: the reservation stays expired, and no second event may commit it. */
export function committedLate(ctx: Ctx, reservationId: string, eventId: string) {
  return write(
    ctx.db,
    sql`
    UPDATE reservations SET settled_event_id = ${eventId}
    WHERE environment_id = ${ctx.environment.id} AND id = ${reservationId}`,
  );
}

export function reservationNotFound(): PurserError {
  return new PurserError("reservation_not_found", "There is no such reservation.", { param: "reservationId" });
}

export function reservationClosed(message: string): PurserError {
  return new PurserError("reservation_closed", message, { param: "reservationId" });
}
