import { batch, fragment, nowMsSql, select, statement } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { aboutAccount } from "../ledger/account.ts";
import type { BalanceStatus } from "../ledger/balance.ts";
import { rangeOf } from "./find-users.ts";
import { type ShownBalance, type ShownRow, showBalance, shownColumns } from "./read-balance.ts";

/** How many balances one page of a search looks at. */
export const searchedBalancesMax = 1_000;

export interface BalanceFilters {
  readonly status?: BalanceStatus | undefined;
  /** The pack's id. */
  readonly packId?: string | undefined;
  /** The beginning of a reference. */
  readonly reference?: string | undefined;
}

type Values = {
  nowMs: number;
  beforeSeq: number;
  limit: number;
  reference: string;
  status: string;
  packId: string;
  from: string;
  to: string;
};

const statusSql = fragment`CASE WHEN revoked_at_ms IS NOT NULL THEN 'revoked' WHEN expires_at_ms <= ${nowMsSql} THEN 'expired'
  WHEN remaining_steps = 0 THEN 'depleted' ELSE 'active' END`;
const passes = fragment`(:status = '' OR ${statusSql} = :status) AND (:packId = '' OR pack_id = :packId)
  AND (:reference = '' OR (external_ref >= :from AND external_ref < :to))`;

/** The balances that one page looks at. */
const searched = (account: string): string => fragment`
  SELECT * FROM credit_balances WHERE account_id = ${account} AND grant_seq < :beforeSeq
  ORDER BY grant_seq DESC LIMIT ${`${searchedBalancesMax}`}`;
const selectRows = aboutAccount<Values, ShownRow>(
  (account) => statement`
    SELECT ${select(shownColumns)} FROM (${searched(account)}) WHERE ${passes} ORDER BY grant_seq DESC LIMIT :limit`,
);
const selectEnd = aboutAccount<Pick<Values, "beforeSeq">, { lastSeq: number | null; searched: number }>(
  (account) => statement`SELECT min(grant_seq) AS lastSeq, count(*) AS searched FROM (${searched(account)})`,
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
