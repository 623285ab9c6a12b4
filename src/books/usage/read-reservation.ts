import { eq, gt, sql } from "drizzle-orm";
import { computed, drizzle, fields, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { accounts, reservations } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { presentLeg, readLegs, willBeCharged } from "../ledger/hold.ts";
import type { ReservationOutput } from "./responses.ts";
import { ofReservationKey, type ReservationKey, reservationNotFound } from "./stored-reservation.ts";

/** A reservation as it stands (U13). Throws `reservation_not_found`. */
export async function readReservation(ctx: TenantCtx, reservationId: string): Promise<ReservationOutput> {
  const [row] = await all(ctx.db, selectShownReservation(ctx, reservationId, ctx.now()));
  if (row === undefined) throw reservationNotFound();
  return presentReservation(row.userId, row);
}

const selectShown = query((value: ValueOf<ReservationKey & { nowMs: number }>) =>
  drizzle
    .select({ ...reservationFields(value), ...fields(accounts, "userId") })
    .from(reservations)
    .innerJoin(accounts, eq(accounts.id, reservations.accountId))
    .where(ofReservationKey(value)),
);

/** The reservation as it is shown at a time: at most one row. */
export function selectShownReservation(
  { environment }: Pick<TenantCtx, "environment">,
  reservationId: string,
  nowMs: number,
) {
  return selectShown({ environmentId: environment.id, reservationId, nowMs });
}

/** The fields of a reservation as it stands. A due one has the status that it will have (U13). */
export function reservationFields(value: ValueOf<{ nowMs: number }>) {
  const { id, state, expiresAtMs, settledEventId } = reservations;
  const isLive = gt(expiresAtMs, value("nowMs"));
  return {
    ...fields(reservations, "id", "event", "model", "quantities", "legs", "onExpiry"),
    ...fields(reservations, "createdAtMs", "expiresAtMs", "settledAtMs"),
    ...computed({
      status: sql<ReservationOutput["status"]>`CASE WHEN ${state} <> 'open' THEN ${state} WHEN ${isLive} THEN 'open'
        WHEN ${willBeCharged()} THEN 'committed' ELSE 'expired' END`,
      eventId: sql<string | null>`CASE WHEN ${state} <> 'open' OR ${isLive} THEN ${settledEventId}
        WHEN ${willBeCharged()} THEN ${id} END`,
    }),
  };
}
type ShownRow = RowOf<ReturnType<typeof reservationFields>>;

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
