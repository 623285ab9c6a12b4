import { desc, sql } from "drizzle-orm";
import { asInteger, boundLimit, drizzle, type ValueOf } from "../../db/query.ts";
import { creditBalances } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery } from "../ledger/account.ts";
import { firstSeqFrom } from "./first-seq.ts";
import { type HistoryInput, type LedgerPage, type LedgerRow, ledgerPage, readHistoryPage, scopeOf } from "./history.ts";
import { showBalance, shownBalanceFields } from "./read-balance.ts";

/** How many entries one page of a search examines, because there is no index by reason. */
export const SEARCHED_LEDGER_ENTRIES_MAX = 1_000;

/** The filters of a ledger search. */
export interface LedgerFilters {
  readonly reason?: LedgerRow["reason"] | undefined;
  /** Entries from this moment on. */
  readonly fromMs?: number | undefined;
  /** Entries before this moment. */
  readonly toMs?: number | undefined;
}

const passesFilters = (row: LedgerRow, { reason, fromMs, toMs }: LedgerFilters): boolean =>
  (reason === undefined || row.reason === reason) &&
  (fromMs === undefined || row.occurredAtMs >= fromMs) &&
  (toMs === undefined || row.occurredAtMs < toMs);

/**
 * Returns a page like `ledgerPage`, with the entries that pass the filters among the next `SEARCHED_LEDGER_ENTRIES_MAX`. A page may have fewer
 * than `limit` entries, or none, although other pages follow. Times never decrease with a user's seq, so a search by date begins at
 * `toMs` and ends at `fromMs`.
 */
export async function searchLedger(ctx: TenantCtx, input: HistoryInput, filters: LedgerFilters): Promise<LedgerPage> {
  const { reason, fromMs, toMs } = filters;
  if (reason === undefined && fromMs === undefined && toMs === undefined) return ledgerPage(ctx, input);
  const scope = scopeOf(ctx, input);
  const beginsAtDate = toMs !== undefined && input.cursor === undefined && input.balanceId === undefined;
  const start = beginsAtDate ? encodeCursor(await firstSeqFrom(ctx, input.userId, toMs), scope) : input.cursor;
  const searched = await ledgerPage(ctx, { ...input, cursor: start, limit: SEARCHED_LEDGER_ENTRIES_MAX });
  const found = searched.rows.filter((row) => passesFilters(row, filters));
  const last = found[input.limit - 1];
  const hasPassedStart = fromMs !== undefined && (searched.rows.at(-1)?.occurredAtMs ?? 0) < fromMs;
  const rows = found.slice(0, input.limit);
  if (last !== undefined && found.length > input.limit) return { rows, nextCursor: encodeCursor(last.seq, scope) };
  return { rows, nextCursor: hasPassedStart ? null : searched.nextCursor };
}

/** Returns a user's newest entries before a moment, newest first: at most `limit`. */
export async function entriesBefore(ctx: TenantCtx, userId: string, beforeMs: number | null, limit: number) {
  const before = beforeMs === null ? Number.MAX_SAFE_INTEGER : await firstSeqFrom(ctx, userId, beforeMs);
  return readHistoryPage(ctx, userId, { limit, before });
}

const selectExpired = accountQuery((value: ValueOf<{ beforeMs: number; limit: number }>, account) => {
  const { expiresAtMs, hasRemaining } = creditBalances;
  return drizzle
    .select(shownBalanceFields())
    .from(sql`${creditBalances} INDEXED BY credit_balances_remaining`)
    .where(sql`${creditBalances.accountId} = ${account} AND ${hasRemaining} = 1
      AND ${expiresAtMs} < ${asInteger(value("beforeMs"))}`)
    .orderBy(desc(expiresAtMs))
    .limit(boundLimit(value("limit")));
});

/** Returns a user's balances that expired with a remaining amount, the latest first. The ledger has no entries of expiries (C14). */
export async function expiriesBefore(ctx: TenantCtx, userId: string, beforeMs: number, limit: number) {
  const nowMs = ctx.now();
  const until = Math.min(beforeMs, nowMs + 1);
  return (await all(ctx.db, selectExpired(ctx, { userId }, { beforeMs: until, limit }))).map((row) =>
    showBalance(row, nowMs),
  );
}
