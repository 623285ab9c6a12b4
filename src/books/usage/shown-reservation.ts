import { fragment, nowMsSql, type RowOf, select } from "../../db/sql.ts";
import { reservations } from "../../db/tables.ts";
import { iso } from "../../lib/time.ts";
import { isToCharge, presentLeg, readLegs } from "../ledger/hold.ts";
import type { ReservationOutput } from "./responses.ts";

const columns = {
  id: reservations.id,
  event: reservations.event,
  model: reservations.model,
  quantities: reservations.quantities,
  legs: reservations.legs,
  onExpiry: reservations.onExpiry,
  createdAtMs: reservations.createdAtMs,
  expiresAtMs: reservations.expiresAtMs,
  settledAtMs: reservations.settledAtMs,
};

export type ShownRow = RowOf<typeof columns> & {
  readonly status: ReservationOutput["status"];
  readonly eventId: string | null;
};

/** SQL: the columns of a `ShownRow`. A due reservation has the status that it will have (U13). */
export const shownColumns = fragment`${select(columns, "reservations")},
  CASE WHEN state <> 'open' THEN state WHEN expires_at_ms > ${nowMsSql} THEN 'open'
    WHEN ${isToCharge} THEN 'committed' ELSE 'expired' END AS "status",
  CASE WHEN state <> 'open' OR expires_at_ms > ${nowMsSql} THEN settled_event_id
    WHEN ${isToCharge} THEN reservations.id END AS "eventId"`;

/** A reservation as the API returns it (U13). */
export function presentReservation(userId: string, row: ShownRow): ReservationOutput {
  return {
    reservationId: row.id,
    userId,
    event: row.event,
    model: row.model,
    // JSON that Purser wrote, in the form of the response.
    quantities: JSON.parse(row.quantities) as ReservationOutput["quantities"],
    onExpiry: row.onExpiry,
    status: row.status,
    createdAt: iso(row.createdAtMs),
    expiresAt: iso(row.expiresAtMs),
    settledAt: row.settledAtMs === null ? null : iso(row.settledAtMs),
    eventId: row.eventId,
    holds: readLegs(row.legs).map(presentLeg),
  };
}
