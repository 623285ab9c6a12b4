import { all, statement } from "../../db/sql.ts";
import { encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { aboutAccount } from "../ledger/account.ts";
import type { LedgerRow } from "../ledger/insert-entries.ts";
import { type LedgerPage, ledgerPage, scopeOf } from "./history.ts";
import type { HistoryInput } from "./schemas.ts";

/** How many entries are searched for one page of entries of one reason, since no index has the reason. */
export const searchedEntriesMax = 1_000;

/** Which entries a search of the ledger shows. */
export interface LedgerFilters {
  readonly reason?: LedgerRow["reason"] | undefined;
  /** Entries from this moment on. */
  readonly fromMs?: number | undefined;
  /** Entries before this moment. */
  readonly toMs?: number | undefined;
}

export const passesFilters = (row: LedgerRow, { reason, fromMs, toMs }: LedgerFilters): boolean =>
  (reason === undefined || row.reason === reason) &&
  (fromMs === undefined || row.occurredAtMs >= fromMs) &&
  (toMs === undefined || row.occurredAtMs < toMs);

/**
 * Like `ledgerPage`, with the entries that pass the filters among the next `searchedEntriesMax`. So a page may have fewer
 * entries than `limit`, or none, while others follow. Times never fall along a user's seq: a search by date begins at `toMs`
 * and ends at `fromMs`.
 */
export async function searchLedger(ctx: TenantCtx, input: HistoryInput, filters: LedgerFilters): Promise<LedgerPage> {
  const { reason, fromMs, toMs } = filters;
  if (reason === undefined && fromMs === undefined && toMs === undefined) return ledgerPage(ctx, input);
  const scope = scopeOf(ctx, input);
  const starts = toMs !== undefined && input.cursor === undefined && input.balanceId === undefined;
  const start = starts ? encodeCursor(await firstSeqFrom(ctx, input.userId, toMs), scope) : input.cursor;
  const searched = await ledgerPage(ctx, { ...input, cursor: start, limit: searchedEntriesMax });
  const found = searched.rows.filter((row) => passesFilters(row, filters));
  const last = found[input.limit - 1];
  const isBefore = fromMs !== undefined && (searched.rows.at(-1)?.occurredAtMs ?? 0) < fromMs;
  const rows = found.slice(0, input.limit);
  if (last !== undefined && found.length > input.limit) return { rows, nextCursor: encodeCursor(last.seq, scope) };
  return { rows, nextCursor: isBefore ? null : searched.nextCursor };
}

const selectFirstSeq = aboutAccount<{ fromMs: number }, { seq: number }>(
  (account) => statement`
    WITH RECURSIVE half (low, high) AS (
      SELECT 1, 1 + coalesce((SELECT seq FROM credit_ledger WHERE account_id = ${account} ORDER BY seq DESC LIMIT 1), 0)
      UNION ALL
      SELECT iif(l.occurred_at_ms < :fromMs, l.seq + 1, low), iif(l.occurred_at_ms < :fromMs, high, l.seq)
      FROM half CROSS JOIN credit_ledger AS l ON l.account_id = ${account} AND l.seq = (low + high) / 2
      WHERE low < high
    )
    SELECT low AS seq FROM half WHERE low >= high`,
);

/** The seq of the user's first entry at a moment or later; one above the last when there is none. Found by halves. */
export async function firstSeqFrom(ctx: TenantCtx, userId: string, fromMs: number): Promise<number> {
  const [found] = await all(ctx.db, selectFirstSeq(ctx, { userId }, { fromMs }));
  return found?.seq ?? 1;
}
