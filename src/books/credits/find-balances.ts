import { and, count, desc, eq, gte, lt, or, type SQL, sql } from "drizzle-orm";
import { boundLimit, computed, drizzle, type ValueOf } from "../../db/query.ts";
import { creditBalances } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery } from "../ledger/account.ts";
import type { BalanceStatus } from "../ledger/balance.ts";
import { type ShownBalance, showBalance, shownBalanceFields } from "./read-balance.ts";
import { rangeOf } from "./users.ts";

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
