import { and, eq, gt, sql } from "drizzle-orm";
import { computed, drizzle, fields, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { accounts, reservations, usageEvents } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { type FormsOfId, formsOfId } from "../../db/usage-ids.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { UnitAmounts } from "../amounts/amount.ts";
import { type MeterAmounts, presentMeters } from "../amounts/meters.ts";
import { presentLeg, readLegs, willBeCharged } from "../ledger/hold.ts";
import { memberIdOf } from "../ledger/payer-members.ts";
import { legsField } from "../ledger/stored-legs.ts";
import type { AmountOfBalance } from "./describe-events.ts";
import { keyOfReservation, ofReservationKey, type ReservationKey, reservationNotFound } from "./stored-reservation.ts";

export interface ReservationOutput {
  readonly reservationId: string;
  readonly userId: string;
  readonly memberId: string | null;
  readonly event: string;
  readonly model: string | null;
  readonly quantities: UnitAmounts;
  readonly meters: MeterAmounts | null;
  readonly priceVersion: number | null;
  readonly onExpiry: "charge" | "return";
  readonly status: ReservationStatus;
  readonly createdAt: string;
  readonly expiresAt: string;
  readonly settledAt: string | null;
  readonly eventId: string | null;
  readonly holds: AmountOfBalance[];
}

export type ReservationStatus = "open" | "committed" | "released" | "expired";

/** The current state of a reservation (U13). Throws `reservation_not_found`. */
export async function readReservation(ctx: TenantCtx, reservationId: string): Promise<ReservationOutput> {
  const forms = await formsOfId(ctx, reservationId);
  const [row] = await all(ctx.db, selectShownReservation(ctx, forms, ctx.now()));
  if (row === undefined) throw reservationNotFound();
  return presentReservation(row.userId, row, reservationId);
}

const selectReservedUsages = query((value: ValueOf<{ environmentId: number; ids: string }>) =>
  drizzle
    .select(fields(reservations, "id", "event", "model"))
    .from(reservations)
    .where(
      and(
        eq(reservations.environmentId, value("environmentId")),
        sql`${reservations.id} IN (SELECT value FROM json_each(${value("ids")}))`,
      ),
    ),
);

/** Returns the event and the model of some reservations, by id. */
export async function describeReservations(ctx: TenantCtx, ids: readonly string[]) {
  if (ids.length === 0) return new Map<string, never>();
  const rows = await all(ctx.db, selectReservedUsages({ environmentId: ctx.environment.id, ids: JSON.stringify(ids) }));
  return new Map(rows.map(({ id, ...usage }) => [id, usage]));
}

const selectShown = query((value: ValueOf<ReservationKey & { nowMs: number }>) =>
  drizzle
    .select({ ...reservationFields(value), ...fields(accounts, "userId") })
    .from(reservations)
    .innerJoin(accounts, eq(accounts.id, reservations.accountId))
    .where(ofReservationKey(value)),
);

/** Selects a reservation as the API returns it at a time: at most one row. */
export function selectShownReservation(ctx: Pick<TenantCtx, "environment">, forms: FormsOfId, nowMs: number) {
  return selectShown({ ...keyOfReservation(ctx, forms), nowMs });
}

const settledEventId = () => sql`(
  SELECT ${usageEvents.eventId} FROM ${usageEvents}
  WHERE ${usageEvents.accountId} = ${reservations.accountId} AND ${usageEvents.seq} = ${reservations.settledEventSeq}
)`;

/** The public fields of a reservation. A due reservation already has the status that its settlement will give it (U13). */
export function reservationFields(value: ValueOf<{ nowMs: number }>) {
  const { id, state, expiresAtMs } = reservations;
  const isBeforeEnd = gt(expiresAtMs, value("nowMs"));
  return {
    ...fields(
      reservations,
      "id",
      "reservationNumber",
      "event",
      "model",
      "quantities",
      "meters",
      "priceVersion",
      "onExpiry",
    ),
    ...legsField(),
    ...fields(reservations, "createdAtMs", "expiresAtMs", "settledAtMs"),
    ...computed({
      memberId: memberIdOf(reservations),
      status: sql<
        ReservationOutput["status"]
      >`CASE WHEN ${state} <> 'open' THEN ${state} WHEN ${isBeforeEnd} THEN 'open'
        WHEN ${willBeCharged()} THEN 'committed' ELSE 'expired' END`,
      eventId: sql<string | null>`CASE WHEN ${state} <> 'open' OR ${isBeforeEnd} THEN ${settledEventId()}
        WHEN ${willBeCharged()} THEN ${id} END`,
    }),
  };
}
type ShownRow = RowOf<ReturnType<typeof reservationFields>>;

/** A reservation as the API returns it (U13), with its id as it was sent. */
export function presentReservation(userId: string, row: ShownRow, reservationId = row.id): ReservationOutput {
  return {
    reservationId,
    userId,
    memberId: row.memberId,
    event: row.event,
    model: row.model,
    // JSON that Purser wrote, in the form of the response.
    quantities: JSON.parse(row.quantities) as ReservationOutput["quantities"],
    meters: presentMeters(row.meters),
    // A reservation with quantities has one too, for its commit.
    priceVersion: row.meters === null ? null : row.priceVersion,
    onExpiry: row.onExpiry,
    status: row.status,
    createdAt: iso(row.createdAtMs),
    expiresAt: iso(row.expiresAtMs),
    settledAt: row.settledAtMs === null ? null : iso(row.settledAtMs),
    // A charge's event has the reservation's id (U15).
    eventId: row.eventId === row.id ? reservationId : row.eventId,
    holds: readLegs(row.legs).map(presentLeg),
  };
}
