import { and, count, desc, eq, gte, lt, or, type SQL, sql } from "drizzle-orm";
import { computed, drizzle, type ValueOf } from "../../db/query.ts";
import { creditBalances } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery } from "../ledger/account.ts";
import type { BalanceStatus } from "../ledger/balance.ts";
import { rangeOf } from "./find-users.ts";
import { type ShownBalance, showBalance, shownBalanceFields } from "./read-balance.ts";

/** How many balances one page of a search looks at. */
export const searchedBalancesMax = 1_000;

export interface BalanceFilters {
  readonly status?: BalanceStatus | undefined;
  /** The pack's id. */
  readonly packId?: string | undefined;
  /** The beginning of a reference. */
  readonly reference?: string | undefined;
}

type Searched = { beforeSeq: number };
type Search = Searched & {
  nowMs: number;
  limit: number;
  status: string;
  packId: string;
  reference: string;
  from: string;
  to: string;
};

/** The balances that one page looks at. */
function searched(account: SQL, value: ValueOf<Searched>): SQL {
  const { accountId, grantSeq } = creditBalances;
  return sql`(
    SELECT * FROM ${creditBalances} WHERE ${accountId} = ${account} AND ${grantSeq} < ${value("beforeSeq")}
    ORDER BY ${grantSeq} DESC LIMIT ${searchedBalancesMax}
  ) AS ${creditBalances}`;
}

function passes(value: ValueOf<Search>): SQL | undefined {
  const { packId, externalRef, revokedAtMs, expiresAtMs, remainingSteps } = creditBalances;
  const status = sql`CASE WHEN ${revokedAtMs} IS NOT NULL THEN 'revoked'
    WHEN ${expiresAtMs} <= ${value("nowMs")} THEN 'expired'
    WHEN ${remainingSteps} = 0 THEN 'depleted' ELSE 'active' END`;
  return and(
    or(sql`${value("status")} = ''`, sql`${status} = ${value("status")}`),
    or(sql`${value("packId")} = ''`, eq(packId, value("packId"))),
    or(sql`${value("reference")} = ''`, and(gte(externalRef, value("from")), lt(externalRef, value("to")))),
  );
}

const selectRows = accountQuery((value: ValueOf<Search>, account) =>
  drizzle
    .select(shownBalanceFields())
    .from(searched(account, value))
    .where(passes(value))
    .orderBy(desc(creditBalances.grantSeq))
    .limit(value("limit")),
);
const selectEnd = accountQuery((value: ValueOf<Searched>, account) =>
  drizzle
    .select(computed({ lastSeq: sql<number | null>`min(${creditBalances.grantSeq})`, searched: count() }))
    .from(searched(account, value)),
);

/**
 * A page of a user's balances that pass the filters, the newest first, among the next `searchedBalancesMax`: it may have fewer
 * than `limit`, or none, while others follow. Throws `invalid_request` for a cursor of another search.
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
  const [rows, [end]] = await batch(ctx.db, [selectRows(ctx, { userId }, values), selectEnd(ctx, { userId }, values)]);
  const isFull = rows.length === limit;
  const last = isFull ? rows.at(-1)?.grantSeq : end?.lastSeq;
  const isMore = isFull || end?.searched === searchedBalancesMax;
  return {
    balances: rows.map((row) => showBalance(row, nowMs)),
    nextCursor: isMore && typeof last === "number" ? encodeCursor(last, scope) : null,
  };
}
