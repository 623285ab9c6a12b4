import { and, desc, eq, gt, lte, not, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { asInteger, computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { reservations } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { cutPage, decodeCursor, encodeCursor, firstWithin, LIST_PAGE_BYTES_MAX } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery, type OfUser } from "../ledger/account.ts";
import { willBeCharged } from "../ledger/hold.ts";
import { legsField, SHOWN_LEG_BYTES_MAX, shownLegs } from "../ledger/stored-legs.ts";
import {
  presentReservation,
  type ReservationOutput,
  type ReservationStatus,
  reservationFields,
} from "./read-reservation.ts";

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
function selectNumbers(value: ValueOf<ReservationsPage>, account: SQL, index: SQL, condition: SQL | undefined): SQL {
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
    selectNumbers(value, account, sql`reservations_open`, and(sql`${state} = 'open'`, condition));
  const settled = (status: SettledStatus) =>
    selectNumbers(value, account, SETTLED_INDEXES[status].name, SETTLED_INDEXES[status].condition(state));
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
