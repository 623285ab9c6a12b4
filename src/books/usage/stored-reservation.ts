import { type Statement, select, statement } from "../../db/sql.ts";
import { reservations } from "../../db/tables.ts";
import { PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { WriteContext } from "../ledger/account.ts";
import { type Hold, type ReservationRow, readLegs } from "../ledger/hold.ts";

const columns = {
  id: reservations.id,
  event: reservations.event,
  model: reservations.model,
  legs: reservations.legs,
  state: reservations.state,
  createdAtMs: reservations.createdAtMs,
  expiresAtMs: reservations.expiresAtMs,
  settledEventId: reservations.settledEventId,
  requestHash: reservations.requestHash,
};

const selectById = statement<{ environmentId: number; id: string }, ReservationRow>`
  SELECT ${select(columns)} FROM reservations WHERE environment_id = :environmentId AND id = :id`;

/** The reservation with an id: at most one row. */
export function selectReservation(ctx: TenantCtx, reservationId: string): Statement<ReservationRow> {
  return selectById({ environmentId: ctx.environment.id, id: reservationId });
}

export function asHold(row: ReservationRow): Hold {
  return { id: row.id, legs: readLegs(row.legs) };
}

/** Whether it is committed, in time or late, or released. It can then not be committed. */
export function isClosed(row: ReservationRow): boolean {
  return row.state === "committed" || row.state === "released" || row.settledEventId !== null;
}

/** A late commit. The reservation stays expired, and cannot be committed by another event. */
export const commitLate = statement<WriteContext & { reservationId: string; eventId: string }>`
  UPDATE reservations SET settled_event_id = :eventId WHERE environment_id = :environmentId AND id = :reservationId`;

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
