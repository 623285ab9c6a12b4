import { and, desc, eq, gt, lte, not, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, computed, drizzle, fields, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { accounts, reservations } from "../../db/schema.ts";
import { all, type Statement } from "../../db/sql.ts";
import { invalidCursor, PurserError } from "../../errors.ts";
import { cutPage, decodeTextCursor, encodeTextCursor, firstWithin, LIST_PAGE_BYTES_MAX } from "../../lib/cursor.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { UnitAmounts } from "../amounts/amount.ts";
import { type MeterAmounts, presentMeters } from "../amounts/meters.ts";
import { accountQuery, type OfUser } from "../ledger/account.ts";
import {
  type Hold,
  presentLeg,
  type ReservationRow,
  readLegs,
  settlementFields,
  willBeCharged,
} from "../ledger/hold.ts";
import { memberIdOf, namedMemberOf } from "../ledger/payer-members.ts";
import { legsField, SHOWN_LEG_BYTES_MAX, shownLegs } from "../ledger/stored-legs.ts";
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

export type ReservationKey = { environmentId: number; reservationId: string };
export const ofReservationKey = (value: ValueOf<ReservationKey>) =>
  and(eq(reservations.environmentId, value("environmentId")), eq(reservations.id, value("reservationId")));

const selectReservationById = query((value: ValueOf<ReservationKey>) =>
  drizzle
    .select({
      ...fields(reservations, "id", "event", "model", "state"),
      ...legsField(),
      ...fields(reservations, "createdAtMs", "expiresAtMs", "settledEventId", "requestHash", "priceVersion"),
      ...fields(reservations, "memberNumber"),
      ...settlementFields(),
      ...computed({ memberId: namedMemberOf(reservations) }),
    })
    .from(reservations)
    .where(ofReservationKey(value)),
);

/** The reservation with an id: at most one row. */
export function selectReservation(ctx: TenantCtx, reservationId: string): Statement<ReservationRow> {
  return selectReservationById({ environmentId: ctx.environment.id, reservationId });
}

export function asHold(row: ReservationRow): Hold {
  const { id, legs, owed, revocations } = row;
  return { id, legs: readLegs(legs), owed, revocations };
}

/** Returns whether a reservation was committed, in time or late, or released. Then it cannot be committed. */
export function isClosed(row: ReservationRow): boolean {
  return row.state === "committed" || row.state === "released" || row.settledEventId !== null;
}

/** Records a late commit. The reservation stays expired, and no other event can commit it. */
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

/** The current state of a reservation (U13). Throws `reservation_not_found`. */
export async function readReservation(ctx: TenantCtx, reservationId: string): Promise<ReservationOutput> {
  const [row] = await all(ctx.db, selectShownReservation(ctx, reservationId, ctx.now()));
  if (row === undefined) throw reservationNotFound();
  return presentReservation(row.userId, row);
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
export function selectShownReservation(
  { environment }: Pick<TenantCtx, "environment">,
  reservationId: string,
  nowMs: number,
) {
  return selectShown({ environmentId: environment.id, reservationId, nowMs });
}

/** The public fields of a reservation. A due reservation already has the status that its settlement will give it (U13). */
function reservationFields(value: ValueOf<{ nowMs: number }>) {
  const { id, state, expiresAtMs, settledEventId } = reservations;
  const isBeforeEnd = gt(expiresAtMs, value("nowMs"));
  return {
    ...fields(reservations, "id", "event", "model", "quantities", "meters", "priceVersion", "onExpiry"),
    ...legsField(),
    ...fields(reservations, "createdAtMs", "expiresAtMs", "settledAtMs"),
    ...computed({
      memberId: memberIdOf(reservations),
      status: sql<
        ReservationOutput["status"]
      >`CASE WHEN ${state} <> 'open' THEN ${state} WHEN ${isBeforeEnd} THEN 'open'
        WHEN ${willBeCharged()} THEN 'committed' ELSE 'expired' END`,
      eventId: sql<string | null>`CASE WHEN ${state} <> 'open' OR ${isBeforeEnd} THEN ${settledEventId}
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
    eventId: row.eventId,
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
  const before = cursor === undefined ? NEWEST : readPosition(cursor, scope);
  const rows = await all(
    ctx.db,
    selectReservationsPage[status ?? "all"](ctx, { userId }, { ...before, limit: limit + 1, nowMs: ctx.now() }),
  );
  const { page } = cutPage(rows, limit);
  const shown = firstWithin(page, ({ legsBytes }) => legsBytes, LIST_PAGE_BYTES_MAX);
  const last = shown.length < rows.length ? shown.at(-1) : undefined;
  const long = await readLongLegs(ctx, shown);
  return {
    reservations: shown.map(({ legs, ...row }) =>
      presentReservation(userId, { ...row, legs: legs ?? long.get(row.id) ?? "[]" }),
    ),
    nextCursor: last === undefined ? null : encodeTextCursor(`${last.createdAtMs} ${last.id}`, scope),
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

type ReservationPosition = {
  readonly beforeMs: number;
  readonly beforeId: string;
};

const NEWEST: ReservationPosition = { beforeMs: Number.MAX_SAFE_INTEGER, beforeId: "" };

function readPosition(cursor: string, scope: readonly (string | number)[]): ReservationPosition {
  const text = decodeTextCursor(cursor, scope);
  const [, beforeMs, beforeId] = /^(\d{1,15}) (res_.+)$/s.exec(text ?? "") ?? [];
  if (beforeMs === undefined || beforeId === undefined) throw invalidCursor();
  return { beforeMs: Number(beforeMs), beforeId };
}

type ReservationsPage = ReservationPosition & { limit: number; nowMs: number };

/** Selects the ids of a page from one index, which covers the query. */
function idsOf(value: ValueOf<ReservationsPage>, account: SQL, index: SQL, condition: SQL | undefined): SQL {
  const { id, accountId, createdAtMs } = reservations;
  return sql`SELECT * FROM (
    SELECT ${id}, ${createdAtMs} FROM ${reservations} INDEXED BY ${index}
    WHERE ${accountId} = ${account} AND ${condition}
      AND (${createdAtMs}, ${id}) < (${value("beforeMs")}, ${value("beforeId")})
    ORDER BY ${createdAtMs} DESC, ${id} DESC LIMIT ${asInteger(value("limit"))}
  )`;
}

type SettledStatus = Exclude<ReservationStatus, "open">;

/** Returns the queries for the reservations of a status. A due reservation has the status that its settlement will give it. */
function idsByStatus(status: ReservationStatus | "all", value: ValueOf<ReservationsPage>, account: SQL): SQL[] {
  const { state, expiresAtMs } = reservations;
  // Each condition repeats that of its partial index.
  const open = (condition?: SQL) =>
    idsOf(value, account, sql`reservations_open`, and(sql`${state} = 'open'`, condition));
  const settled = (status: SettledStatus) =>
    idsOf(value, account, sql`reservations_settled`, and(sql`${state} <> 'open'`, eq(state, status)));
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
    const { environmentId, id, createdAtMs } = reservations;
    const ids = sql.join(idsByStatus(status, value, account), sql` UNION ALL `);
    return drizzle
      .select({ ...reservationFields(value), ...shortLegs() })
      .from(sql`(${ids} ORDER BY 2 DESC, 1 DESC LIMIT ${asInteger(value("limit"))}) AS ${reservationsPage}`)
      .crossJoin(reservations)
      .where(and(eq(environmentId, value("environmentId")), eq(id, reservationsPage.id)))
      .orderBy(desc(createdAtMs), desc(id));
  });

const selectReservationsPage = {
  open: reservationsPageOf("open"),
  released: reservationsPageOf("released"),
  committed: reservationsPageOf("committed"),
  expired: reservationsPageOf("expired"),
  all: reservationsPageOf("all"),
};
