import { and, desc, eq, gt, lte, not, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { asInteger, computed, drizzle, fields, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { accounts, priceLists, reservations, usageEvents } from "../../db/schema.ts";
import { all, type Statement } from "../../db/sql.ts";
import { type FormsOfId, formsOfId, hasReservationId } from "../../db/usage-ids.ts";
import { invalidCursor, PurserError } from "../../errors.ts";
import { cutPage, decodeCursor, encodeCursor, firstWithin, LIST_PAGE_BYTES_MAX } from "../../lib/cursor.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { UnitAmounts } from "../amounts/amount.ts";
import { type MeterAmounts, presentMeters } from "../amounts/meters.ts";
import { accountQuery, type OfUser, type WriteContext } from "../ledger/account.ts";
import {
  type Hold,
  presentLeg,
  type ReservationRow,
  readLegs,
  settlementFields,
  willBeCharged,
} from "../ledger/hold.ts";
import { memberIdOf, namedMemberOf } from "../ledger/payer-members.ts";
import { seqOfSettlingEvent } from "../ledger/settle-reservations.ts";
import { legsField, SHOWN_LEG_BYTES_MAX, shownLegs } from "../ledger/stored-legs.ts";
import { isPinnedAndUnknown, type PinnedVersion, pinnedVersionFields } from "../prices/price-versions.ts";
import type { AmountOfBalance } from "./describe-events.ts";

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

/** The longest that credits are held, from a reservation's creation on. */
export const EXPIRES_IN_SECONDS_MAX = 86_400;

export interface ReservationsOutput {
  readonly reservations: ReservationOutput[];
  readonly nextCursor: string | null;
}

export interface ReservationsInput {
  readonly userId: string;
  readonly status?: ReservationStatus | undefined;
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/** `forms` is JSON. */
export type ReservationKey = { environmentId: number; forms: string };
export const ofReservationKey = (value: ValueOf<ReservationKey>) => hasReservationId(value, value("forms"));
export const keyOfReservation = ({ environment }: Pick<TenantCtx, "environment">, forms: FormsOfId) => ({
  environmentId: environment.id,
  forms: JSON.stringify(forms),
});

const settleableFields = () => ({
  ...fields(reservations, "id", "reservationNumber", "event", "model", "state"),
  ...legsField(),
  ...fields(
    reservations,
    "createdAtMs",
    "expiresAtMs",
    "settledEventSeq",
    "requestHash",
    "priceVersion",
    "memberNumber",
  ),
  ...settlementFields(),
  ...computed({ memberId: namedMemberOf(reservations) }),
});
const selectReservationById = query((value: ValueOf<ReservationKey>) =>
  drizzle.select(settleableFields()).from(reservations).where(ofReservationKey(value)),
);
const selectReservationAndPrices = query((value: ValueOf<ReservationKey & { known: string }>) =>
  drizzle
    .select({ ...settleableFields(), ...pinnedVersionFields() })
    .from(reservations)
    .leftJoin(priceLists, isPinnedAndUnknown(value))
    .where(ofReservationKey(value)),
);

/** The reservation with an id: at most one row. */
export function selectReservation(ctx: TenantCtx, forms: FormsOfId): Statement<ReservationRow> {
  return selectReservationById(keyOfReservation(ctx, forms));
}

/** The same with the version of the price list that it pins, unless it is among the known ones. `known` is null if it needs no price. */
export function selectReservationToCommit(
  ctx: TenantCtx,
  forms: FormsOfId,
  known: string | null,
): Statement<ReservationRow & Partial<PinnedVersion>> {
  if (known === null) return selectReservation(ctx, forms);
  return selectReservationAndPrices({ ...keyOfReservation(ctx, forms), known });
}

export function asHold(row: ReservationRow): Hold {
  const { id, reservationNumber, legs, owed, revocations } = row;
  return { id, reservationNumber, legs: readLegs(legs), owed, revocations };
}

/** Returns whether a reservation was committed, in time or late, or released. Then it cannot be committed. */
export function isClosed(row: ReservationRow): boolean {
  return row.state === "committed" || row.state === "released" || row.settledEventSeq !== null;
}

/**
 * Records a late commit. The reservation stays expired, and no other event can commit it. The batch aborts with
 * `reservations_settled_once` if one has, or if an erasure has replaced the id, which the event has too.
 */
export const commitLate = query(
  (value: ValueOf<WriteContext & ReservationKey & { storedId: string; eventId: string }>) =>
    drizzle
      .update(reservations)
      .set({
        settledEventSeq: sql`iif(${reservations.id} = ${value("storedId")}, ${seqOfSettlingEvent(value, sql`${value("eventId")}`)}, NULL)`,
      })
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
function reservationFields(value: ValueOf<{ nowMs: number }>) {
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

/**
 * Returns a page of the user's reservations, newest first, of one status if given (U13). The cursor names the last reservation of the
 * page, so that new reservations do not shift pages. Long lists of holds take another trip, and end the page early.
 */
export async function listReservations(ctx: TenantCtx, input: ReservationsInput): Promise<ReservationsOutput> {
  const { userId, status, limit, cursor } = input;
  const scope = ["reservations", ctx.environment.id, userId, status ?? ""];
  const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : decodeCursor(cursor, scope);
  if (before === null) throw invalidCursor();
  const rows = await all(
    ctx.db,
    selectReservationsPage[status ?? "all"](ctx, { userId }, { before, limit: limit + 1, nowMs: ctx.now() }),
  );
  const { page } = cutPage(rows, limit);
  const shown = firstWithin(page, ({ legsBytes }) => legsBytes, LIST_PAGE_BYTES_MAX);
  const last = shown.length < rows.length ? shown.at(-1) : undefined;
  const long = await readLongLegs(ctx, shown);
  return {
    reservations: shown.map(({ legs, ...row }) =>
      presentReservation(userId, { ...row, legs: legs ?? long.get(row.id) ?? "[]" }),
    ),
    nextCursor: last === undefined ? null : encodeCursor(last.reservationNumber, scope),
  };
}

const selectLegs = query((value: ValueOf<{ environmentId: number; ids: string }>) =>
  drizzle
    .select({ ...fields(reservations, "id"), ...legsField() })
    .from(sql`json_each(${value("ids")}) AS item`)
    .crossJoin(reservations)
    .where(and(eq(reservations.environmentId, value("environmentId")), sql`${reservations.id} = item.value`)),
);

/** Returns the legs of a page's reservations that the page left out. */
async function readLongLegs(ctx: TenantCtx, page: readonly { readonly id: string; readonly legs: string | null }[]) {
  const ids = page.flatMap(({ id, legs }) => (legs === null ? [id] : []));
  if (ids.length === 0) return new Map<string, never>();
  const rows = await all(ctx.db, selectLegs({ environmentId: ctx.environment.id, ids: JSON.stringify(ids) }));
  return new Map(rows.map(({ id, legs }) => [id, legs]));
}

type ReservationsPage = { before: number; limit: number; nowMs: number };

/** Selects the numbers of a page from one index, which covers the query. */
function numbersOf(value: ValueOf<ReservationsPage>, account: SQL, index: SQL, condition: SQL | undefined): SQL {
  const { reservationNumber, accountId } = reservations;
  return sql`SELECT * FROM (
    SELECT ${accountId}, ${reservationNumber} FROM ${reservations} INDEXED BY ${index}
    WHERE ${accountId} = ${account} AND ${condition} AND ${reservationNumber} < ${value("before")}
    ORDER BY ${reservationNumber} DESC LIMIT ${asInteger(value("limit"))}
  )`;
}

type SettledStatus = Exclude<ReservationStatus, "open">;

const SETTLED_INDEXES = {
  committed: { name: sql`reservations_committed`, condition: (state: SQLiteColumn) => sql`${state} = 'committed'` },
  released: { name: sql`reservations_released`, condition: (state: SQLiteColumn) => sql`${state} = 'released'` },
  expired: { name: sql`reservations_expired`, condition: (state: SQLiteColumn) => sql`${state} = 'expired'` },
} as const;

/** Returns the queries for the reservations of a status. A due reservation has the status that its settlement will give it. */
function numbersByStatus(status: ReservationStatus | "all", value: ValueOf<ReservationsPage>, account: SQL): SQL[] {
  const { state, expiresAtMs } = reservations;
  // Each condition repeats that of its partial index.
  const open = (condition?: SQL) =>
    numbersOf(value, account, sql`reservations_open`, and(sql`${state} = 'open'`, condition));
  const settled = (status: SettledStatus) =>
    numbersOf(value, account, SETTLED_INDEXES[status].name, SETTLED_INDEXES[status].condition(state));
  const isDue = lte(expiresAtMs, value("nowMs"));
  switch (status) {
    case "open":
      return [open(gt(expiresAtMs, value("nowMs")))];
    case "released":
      return [settled("released")];
    case "committed":
      return [open(and(isDue, willBeCharged())), settled("committed")];
    case "expired":
      return [open(and(isDue, not(willBeCharged()))), settled("expired")];
    case "all":
      return [open(), settled("committed"), settled("released"), settled("expired")];
  }
}

/** Longer lists of holds are read after the page is cut. */
const LEGS_BYTES_MAX = LIST_PAGE_BYTES_MAX / 512;
const shortLegs = () => {
  const bytes = sql<number>`${SHOWN_LEG_BYTES_MAX} * ${reservations.legCount}`;
  return computed({
    legs: sql<string | null>`iif(${bytes} > ${LEGS_BYTES_MAX}, NULL, ${shownLegs()})`,
    legsBytes: bytes,
  });
};

const reservationsPage = alias(reservations, "page");

const reservationsPageOf = (status: ReservationStatus | "all") =>
  accountQuery((value: ValueOf<ReservationsPage & OfUser>, account) => {
    const { accountId, reservationNumber } = reservations;
    const numbers = sql.join(numbersByStatus(status, value, account), sql` UNION ALL `);
    return drizzle
      .select({ ...reservationFields(value), ...shortLegs() })
      .from(sql`(${numbers} ORDER BY 2 DESC LIMIT ${asInteger(value("limit"))}) AS ${reservationsPage}`)
      .crossJoin(reservations)
      .where(and(eq(accountId, reservationsPage.accountId), eq(reservationNumber, reservationsPage.reservationNumber)))
      .orderBy(desc(reservationNumber));
  });

const selectReservationsPage = {
  open: reservationsPageOf("open"),
  released: reservationsPageOf("released"),
  committed: reservationsPageOf("committed"),
  expired: reservationsPageOf("expired"),
  all: reservationsPageOf("all"),
};
