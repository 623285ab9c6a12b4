import { type SQL, sql } from "drizzle-orm";
import { computed, read, type ValueOf } from "../../db/query.ts";
import { creditLedger } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery } from "../ledger/account.ts";
import { type LedgerRow, lastSeqOf } from "../ledger/insert-entries.ts";
import { type LedgerPage, ledgerPage, scopeOf } from "./history.ts";
import type { HistoryInput } from "./schemas.ts";

/** How many entries one page of a search examines. Entries of one reason have no index. */
export const searchedEntriesMax = 1_000;

/** The filters of a ledger search. */
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
 * Does the same as `ledgerPage`, with the entries that pass the filters among the next `searchedEntriesMax`. A page may have
 * fewer than `limit` entries, or none, although others follow. Times never decrease with a user's seq, so a search by date
 * begins at `toMs` and ends at `fromMs`.
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

/**
 * Returns, for each account, the seq of its first entry at a moment or later, or the last seq plus one if there is none. Uses
 * binary search. `of` is a SELECT of the accounts, as `account`.
 */
export function readFirstSeqs(of: SQL, value: ValueOf<{ atMs: number }>) {
  const { accountId, seq, occurredAtMs } = creditLedger;
  const isBefore = sql`${occurredAtMs} < ${value("atMs")}`;
  return read(
    computed({ accountId: sql<number>`half.account`, seq: sql<number>`half.low` }),
    (list) => sql`WITH RECURSIVE half (account, low, high) AS (
      SELECT account, 1, 1 + ${lastSeqOf(sql`account`)} FROM (${of})
      UNION ALL
      SELECT account, iif(${isBefore}, ${seq} + 1, low), iif(${isBefore}, high, ${seq})
      FROM half CROSS JOIN ${creditLedger} ON ${accountId} = account AND ${seq} = (low + high) / 2
      WHERE low < high
    )
    SELECT ${list} FROM half WHERE low >= high`,
  );
}

const selectFirstSeq = accountQuery((value: ValueOf<{ atMs: number }>, account) =>
  readFirstSeqs(sql`SELECT ${account} AS account`, value),
);

/**
 * Returns the seq of the user's first entry at a moment or later, or the last seq plus one if there is none. Uses binary search.
 */
export async function firstSeqFrom(ctx: TenantCtx, userId: string, atMs: number): Promise<number> {
  const [found] = await all(ctx.db, selectFirstSeq(ctx, { userId }, { atMs }));
  return found?.seq ?? 1;
}
