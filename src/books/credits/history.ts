import { all, fragment, query, select, statement, type Values } from "../../db/sql.ts";
import { creditLedger } from "../../db/tables.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { aboutAccount } from "../ledger/account.ts";
import { presentEntry } from "../ledger/entry.ts";
import type { LedgerRow } from "../ledger/insert-entries.ts";
import type { HistoryOutput } from "./responses.ts";
import { balanceNotFound } from "./revoke.ts";
import type { HistoryInput } from "./schemas.ts";

/**
 * A page of the user's ledger, newest first; of one balance if `balanceId` is given. The cursor has the seq of the last
 * entry shown, so new entries do not move pages. Throws `credit_balance_not_found` (C16, C17).
 */
export async function listEntries(ctx: TenantCtx, input: HistoryInput): Promise<HistoryOutput> {
  const { rows: entries, nextCursor } = await ledgerPage(ctx, input);
  return { entries: entries.map(presentEntry), nextCursor };
}

export interface LedgerPage {
  readonly rows: readonly LedgerRow[];
  readonly nextCursor: string | null;
}

export const scopeOf = (ctx: TenantCtx, input: HistoryInput) => [
  ctx.environment.id,
  input.userId,
  input.balanceId ?? "",
];

/** The rows behind `listEntries`, which also have the balance after each entry. */
export async function ledgerPage(ctx: TenantCtx, input: HistoryInput): Promise<LedgerPage> {
  const scope = scopeOf(ctx, input);
  const before = input.cursor === undefined ? null : decodeCursor(input.cursor, scope);
  if (input.cursor !== undefined && before === null) {
    throw invalidCursor();
  }
  // SQLite promises no order of rows that travel as one.
  const entries = (await all(ctx.db, pageStatement(ctx, input, before))).sort((a, b) => b.seq - a.seq);
  const last = entries.at(-1);
  // Every balance has the entry of its grant, and a cursor exists only when older entries follow.
  if (last === undefined && input.balanceId !== undefined) throw balanceNotFound();
  const isMore = last !== undefined && (input.balanceId === undefined ? last.seq > 1 : last.previousSeq !== null);
  return { rows: entries, nextCursor: isMore ? encodeCursor(last.seq, scope) : null };
}

const columns = {
  seq: creditLedger.seq,
  balanceId: creditLedger.balanceId,
  packId: creditLedger.packId,
  unit: creditLedger.unit,
  deltaSteps: creditLedger.deltaSteps,
  balanceAfterSteps: creditLedger.balanceAfterSteps,
  previousSeq: creditLedger.previousSeq,
  reason: creditLedger.reason,
  eventId: creditLedger.eventId,
  reservationId: creditLedger.reservationId,
  note: creditLedger.note,
  occurredAtMs: creditLedger.occurredAtMs,
};

/** Seqs are gapless from 1, so the last row of a page shows whether another follows. */
const selectPage = aboutAccount<{ before: number; limit: number }, LedgerRow>(
  (account) => query<LedgerRow>(columns)`
      FROM credit_ledger WHERE account_id = ${account} AND seq < :before ORDER BY seq DESC LIMIT :limit`,
);

/** Follows `previous_seq` from the entry with the seq `start`. It needs no index and no scan. */
const followChain = (account: string, start: string) => statement<Values, LedgerRow>`
  WITH RECURSIVE entry AS (
    SELECT * FROM credit_ledger WHERE account_id = ${account} AND seq = (${start})
    UNION ALL
    SELECT older.* FROM entry CROSS JOIN credit_ledger AS older
    WHERE older.account_id = entry.account_id AND older.seq = entry.previous_seq
    LIMIT :limit
  )
  SELECT ${select(columns)} FROM entry`;

const selectNewestOfBalance = aboutAccount<{ balanceId: string; limit: number }, LedgerRow>((account) =>
  followChain(
    account,
    fragment`SELECT last_seq FROM credit_balances WHERE account_id = ${account} AND id = :balanceId`,
  ),
);
const selectOlderOfBalance = aboutAccount<{ balanceId: string; limit: number; before: number }, LedgerRow>((account) =>
  followChain(
    account,
    fragment`SELECT previous_seq FROM credit_ledger
      WHERE account_id = ${account} AND seq = :before AND balance_id = :balanceId`,
  ),
);

function pageStatement(ctx: TenantCtx, { userId, balanceId, limit }: HistoryInput, before: number | null) {
  if (balanceId === undefined) {
    return selectPage(ctx, { userId }, { limit, before: before ?? Number.MAX_SAFE_INTEGER });
  }
  if (before === null) return selectNewestOfBalance(ctx, { userId }, { limit, balanceId });
  return selectOlderOfBalance(ctx, { userId }, { limit, balanceId, before });
}
