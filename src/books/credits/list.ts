import { and, count, desc, eq, gte, lt, or, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, boundLimit, computed, drizzle, fields, read, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger, type Minor } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { invalid, invalidCursor, PurserError } from "../../errors.ts";
import { cutPage, decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { Unit } from "../amounts/amount.ts";
import { type MatchRule, readStoredRules, rulesPassFilter } from "../amounts/match.ts";
import { accountQuery } from "../ledger/account.ts";
import {
  type BalanceRow,
  type BalanceStatus,
  inSpendingOrder,
  PRESENTED_FIELDS,
  presentBalance,
} from "../ledger/balance.ts";
import { readDuePeriods, selectDuePeriods } from "../ledger/due-periods.ts";
import { balancesOfPeriods } from "../ledger/plan-periods.ts";
import {
  LISTED_MAX,
  selectActive,
  selectActiveUpTo,
  selectAllBalances,
  selectAsOf,
  selectBalancesUpTo,
  selectUnderReference,
  selectUnderReferenceAsOf,
} from "../ledger/spendable-balances.ts";
import { back, isLastOf, walkBack } from "../ledger/walk-back.ts";
import { firstSeqFrom } from "./first-seq.ts";
import { type ShownBalance, showBalance, shownBalanceFields } from "./read-balance.ts";
import { rangeOf } from "./users.ts";

export interface ListOutput {
  readonly credits: {
    readonly balanceId: string;
    readonly packId: string;
    readonly packName: string;
    readonly packItemId: string | null;
    readonly kind: "generic" | "per_type";
    readonly unit: Unit;
    readonly remaining: number;
    readonly initial: number;
    readonly grantedAt: string;
    readonly expiresAt: string | null;
    readonly status: BalanceStatus;
    readonly matches: MatchRule[];
    readonly priority: number;
  }[];
}

export interface ListInput {
  readonly userId: string;
  readonly includeExpired: boolean;
  readonly event?: string | undefined;
  readonly externalRef?: string | undefined;
  readonly asOf?: number | undefined;
}

/** How many balances one page of a search examines. */
export const SEARCHED_BALANCES_MAX = 1_000;

export interface BalanceFilters {
  readonly status?: BalanceStatus | undefined;
  /** The pack's id. */
  readonly packId?: string | undefined;
  /** The beginning of a reference. */
  readonly reference?: string | undefined;
}

type SearchPosition = { beforeSeq: number };
type BalanceSearch = SearchPosition & {
  nowMs: number;
  limit: number;
  status: string;
  packId: string;
  reference: string;
  from: string;
  to: string;
};

/** Returns the balances that one page examines. */
function examinedBalances(account: SQL, value: ValueOf<SearchPosition>): SQL {
  const { accountId, grantSeq } = creditBalances;
  return sql`(
    SELECT * FROM ${creditBalances} WHERE ${accountId} = ${account} AND ${grantSeq} < ${value("beforeSeq")}
    ORDER BY ${grantSeq} DESC LIMIT ${SEARCHED_BALANCES_MAX}
  ) AS ${creditBalances}`;
}

function passesBalanceFilters(value: ValueOf<BalanceSearch>): SQL | undefined {
  const { packId, externalRef, revokedAtMs, expiresAtMs, remainingMinor } = creditBalances;
  const status = sql`CASE WHEN ${revokedAtMs} IS NOT NULL THEN 'revoked'
    WHEN ${expiresAtMs} <= ${value("nowMs")} THEN 'expired'
    WHEN ${remainingMinor} = 0 THEN 'depleted' ELSE 'active' END`;
  return and(
    or(sql`${value("status")} = ''`, sql`${status} = ${value("status")}`),
    or(sql`${value("packId")} = ''`, eq(packId, value("packId"))),
    or(sql`${value("reference")} = ''`, and(gte(externalRef, value("from")), lt(externalRef, value("to")))),
  );
}

const selectFoundBalances = accountQuery((value: ValueOf<BalanceSearch>, account) =>
  drizzle
    .select(shownBalanceFields())
    .from(examinedBalances(account, value))
    .where(passesBalanceFilters(value))
    .orderBy(desc(creditBalances.grantSeq))
    .limit(boundLimit(value("limit"))),
);
const selectBalancesEnd = accountQuery((value: ValueOf<SearchPosition>, account) =>
  drizzle
    .select(computed({ lastSeq: sql<number | null>`min(${creditBalances.grantSeq})`, examined: count() }))
    .from(examinedBalances(account, value)),
);

/**
 * Returns the user's balances that pass the filters, newest first, among the next `SEARCHED_BALANCES_MAX`. A page may have fewer
 * than `limit`, or none, although other pages follow. Throws `invalid_request` for a cursor of another search.
 */
export async function findBalances(
  ctx: TenantCtx,
  userId: string,
  filters: BalanceFilters,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): Promise<{ balances: readonly ShownBalance[]; nextCursor: string | null }> {
  const { status = "", packId = "", reference = "" } = filters;
  const scope = ["found balances", ctx.environment.id, userId, status, packId, reference];
  const beforeSeq = cursor === undefined ? Number.MAX_SAFE_INTEGER : decodeCursor(cursor, scope);
  if (beforeSeq === null) throw invalidCursor();
  const nowMs = ctx.now();
  const values = { nowMs, beforeSeq, limit, status, packId, reference, ...rangeOf(reference) };
  const [rows, [end]] = await batch(ctx.db, [
    selectFoundBalances(ctx, { userId }, values),
    selectBalancesEnd(ctx, { userId }, values),
  ]);
  const isFull = rows.length === limit;
  const last = isFull ? rows.at(-1)?.grantSeq : end?.lastSeq;
  const hasMore = isFull || end?.examined === SEARCHED_BALANCES_MAX;
  return {
    balances: rows.map((row) => showBalance(row, nowMs)),
    nextCursor: hasMore && typeof last === "number" ? encodeCursor(last, scope) : null,
  };
}

/**
 * Returns the user's balances in spending order (C13). By default, lists active balances (C11); `includeExpired` lists all;
 * `externalRef` all under the reference; `asOf` all that were issued by then, as they were (C23); `event` only those whose rules
 * match (C4). An unknown user has none. Throws `invalid_request` for a moment in the future, and for too many balances (L6).
 */
export async function listBalances(ctx: TenantCtx, input: ListInput): Promise<ListOutput> {
  const { event } = input;
  // The query and the statuses use the same time, so that they agree.
  const nowMs = ctx.now();
  const atMs = input.asOf ?? nowMs;
  if (atMs > nowMs) throw invalid("asOf", "must not be in the future");
  const [stored, due = []] = await batch(ctx.db, [
    selectListed(ctx, input, atMs),
    ...(showsDue(input) ? [selectDuePeriods(ctx, input, { nowMs })] : []),
  ] as const);
  // The balances of due periods are listed as they will be written (R3).
  const periods = readDuePeriods(ctx, due, nowMs);
  const rows = [
    ...stored,
    ...balancesOfPeriods(periods).filter((row) => input.includeExpired || row.expiresAtMs > nowMs),
  ];
  if (rows.length > LISTED_MAX) throw tooManyListed();
  const covering = rows.filter((row) => event === undefined || rulesPassFilter(readStoredRules(row.matches), event));
  return { credits: inSpendingOrder(covering).map((row) => presentBalance(row, atMs)) };
}

/**
 * Returns whether a list shows due periods that are not granted yet. Lists by reference and lists as of a moment do not.
 */
const showsDue = ({ externalRef, asOf }: ListInput): boolean => externalRef === undefined && asOf === undefined;

function tooManyListed(): PurserError {
  const message =
    "The user has more balances than a list may have. Leave out `includeExpired` and `asOf`, or export the person.";
  return new PurserError("invalid_request", message, { details: { limit: LISTED_MAX } });
}

function selectListed(ctx: TenantCtx, { userId, externalRef, asOf: asOfMs, includeExpired }: ListInput, nowMs: number) {
  const user = { userId };
  if (asOfMs !== undefined) {
    if (externalRef === undefined) return selectAsOf(ctx, user, { asOfMs });
    return selectUnderReferenceAsOf(ctx, user, { asOfMs, externalRef });
  }
  if (externalRef !== undefined) return selectUnderReference(ctx, user, { externalRef });
  return includeExpired ? selectAllBalances(ctx, user, {}) : selectActive(ctx, user, { nowMs });
}

export interface BalanceList {
  /** In spending order; balances that can pay come before others. With their source and notes. */
  readonly balances: readonly (ReturnType<typeof presentBalance> & Pick<BalanceRow, "source" | "notes">)[];
  /** Whether the user has more balances than the list has. */
  readonly isTruncated: boolean;
}

/** Returns a user's balances for the dashboard: at most `limit` that can pay and `limit` others, so that the cost is bounded. */
export async function listAllBalances(ctx: TenantCtx, userId: string, limit: number): Promise<BalanceList> {
  const nowMs = ctx.now();
  const [active, ofAnyStatus, due] = await batch(ctx.db, [
    selectActiveUpTo(ctx, { userId }, { nowMs, limit: limit + 1 }),
    selectBalancesUpTo(ctx, { userId }, { limit: limit + 1 }),
    selectDuePeriods(ctx, { userId }, { nowMs }),
  ] as const);
  const spendable = [...active, ...balancesOfPeriods(readDuePeriods(ctx, due, nowMs))];
  const inOrder = (rows: readonly BalanceRow[]) =>
    inSpendingOrder(rows).map((row) => ({ ...presentBalance(row, nowMs), source: row.source, notes: row.notes }));
  const spendableIds = new Set(spendable.map((row) => row.id));
  const others = ofAnyStatus.filter((row) => !spendableIds.has(row.id));
  return {
    balances: [...inOrder(spendable.slice(0, limit)), ...inOrder(others).slice(0, limit)],
    isTruncated: spendable.length > limit || ofAnyStatus.length > limit,
  };
}

/** How many ledger entries one page reads backwards, for all its balances together. */
export const AS_OF_ENTRIES_MAX = 20_000;

type BalancesPage = { asOfMs: number; beforeSeq: number; limit: number };

/** Selects balances as of a moment. It follows each balance's entries backwards (C23), up to `AS_OF_ENTRIES_MAX` entries. */
const selectBalancesPage = accountQuery((value: ValueOf<BalancesPage>, account) => {
  const { accountId, grantSeq } = creditBalances;
  const { remainingMinor: _, revokedAtMs: __, ...neverChanged } = fields(creditBalances, ...PRESENTED_FIELDS);
  const asOfMs = value("asOfMs");
  const walk = walkBack({
    columns: ["grantSeq", "balanceAfterMinor", "isRevoked", "occurredAtMs"],
    start: sql`page AS ${creditBalances} CROSS JOIN ${creditLedger} ON ${isLastOf(creditBalances)}`,
    continues: sql`${back.occurredAtMs} > ${asOfMs}`,
    limit: sql`${AS_OF_ENTRIES_MAX}`,
  });
  const found = alias(creditLedger, "found");
  return read(
    {
      ...neverChanged,
      ...fields(creditBalances, "grantSeq"),
      ...computed({
        isFound: sql`${found.seq} IS NOT NULL`.mapWith(Boolean),
        remainingMinor: sql<Minor>`coalesce(${found.balanceAfterMinor}, 0)`,
        revokedAtMs: sql<number | null>`iif(${found.isRevoked}, ${found.occurredAtMs}, NULL)`,
      }),
    },
    (list) => sql`WITH RECURSIVE page AS (
      SELECT * FROM ${creditBalances} WHERE ${accountId} = ${account} AND ${grantSeq} < ${value("beforeSeq")}
      ORDER BY ${grantSeq} DESC LIMIT ${asInteger(value("limit"))}
    ), ${walk}, ${found} AS MATERIALIZED (SELECT * FROM ${back} WHERE ${back.occurredAtMs} <= ${asOfMs})
    SELECT ${list} FROM page AS ${creditBalances} LEFT JOIN ${found} ON ${found.grantSeq} = ${grantSeq}
    ORDER BY ${grantSeq} DESC`,
  );
});

/**
 * Returns the balances that a user had at a moment, newest first. `past` is null for a balance with too many later entries. Throws
 * `invalid_request` for a moment in the future, and for a cursor of another list.
 */
export async function listBalancesAsOf(
  ctx: TenantCtx,
  userId: string,
  asOfMs: number,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
) {
  if (asOfMs > ctx.now()) throw invalid("asOf", "must not be in the future");
  const scope = ["as of", ctx.environment.id, userId, asOfMs];
  const beforeSeq = cursor === undefined ? await firstSeqFrom(ctx, userId, asOfMs + 1) : decodeCursor(cursor, scope);
  if (beforeSeq === null) throw invalidCursor();
  const rows = await all(ctx.db, selectBalancesPage(ctx, { userId }, { asOfMs, beforeSeq, limit: limit + 1 }));
  const { page, last } = cutPage(rows, limit);
  return {
    balances: page.map((row) => ({ balanceId: row.id, past: row.isFound ? presentBalance(row, asOfMs) : null })),
    nextCursor: last === undefined ? null : encodeCursor(last.grantSeq, scope),
  };
}
