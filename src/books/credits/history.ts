import { and, desc, eq, lt, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { drizzle, fields, read, scalar, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery } from "../ledger/account.ts";
import { presentEntry } from "../ledger/entry.ts";
import type { LedgerRow } from "../ledger/insert-entries.ts";
import type { HistoryOutput } from "./responses.ts";
import { balanceNotFound } from "./revoke.ts";
import type { HistoryInput } from "./schemas.ts";

/**
 * Returns a page of the user's ledger, newest first; only entries of `balanceId` if it is given. The cursor has the seq of the
 * last entry shown, so new entries do not move pages. Throws `credit_balance_not_found` (C16, C17).
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

/** Returns the rows of `listEntries`, which also have the balance after each entry. */
export async function ledgerPage(ctx: TenantCtx, input: HistoryInput): Promise<LedgerPage> {
  const scope = scopeOf(ctx, input);
  const before = input.cursor === undefined ? null : decodeCursor(input.cursor, scope);
  if (input.cursor !== undefined && before === null) {
    throw invalidCursor();
  }
  // SQLite does not guarantee the order of rows that return as one JSON text.
  const entries = (await all(ctx.db, historyStatement(ctx, input, before))).sort((a, b) => b.seq - a.seq);
  const last = entries.at(-1);
  // Every balance has the entry of its grant, and a cursor exists only when older entries follow.
  if (last === undefined && input.balanceId !== undefined) throw balanceNotFound();
  const isMore = last !== undefined && (input.balanceId === undefined ? last.seq > 1 : last.previousSeq !== null);
  return { rows: entries, nextCursor: isMore ? encodeCursor(last.seq, scope) : null };
}

const { accountId, seq, balanceId } = creditLedger;

const historyFields = () =>
  fields(
    creditLedger,
    ...(["seq", "balanceId", "packId", "unit", "deltaSteps", "balanceAfterSteps", "previousSeq"] as const),
    ...(["reason", "cause", "writtenBy", "eventId", "reservationId", "note", "occurredAtMs"] as const),
  );

/** Selects a page of entries. Seqs have no gaps and begin at 1, so the last row of a page shows whether another page follows. */
const selectHistoryPage = accountQuery((value: ValueOf<{ before: number; limit: number }>, account) =>
  drizzle
    .select(historyFields())
    .from(creditLedger)
    .where(and(eq(accountId, account), lt(seq, value("before"))))
    .orderBy(desc(seq))
    .limit(value("limit")),
);

const newer = alias(creditLedger, "newer");

/** Follows `previousSeq` from the entry with the seq `start`. It needs no index and no scan. */
const followChain = (account: SQL, start: SQL, value: ValueOf<{ limit: number }>) =>
  read(
    historyFields(),
    (list) => sql`WITH RECURSIVE chain AS (
      SELECT * FROM ${creditLedger} WHERE ${accountId} = ${account} AND ${seq} = ${start}
      UNION ALL
      SELECT ${creditLedger}.* FROM chain AS ${newer} CROSS JOIN ${creditLedger}
      WHERE ${accountId} = ${newer.accountId} AND ${seq} = ${newer.previousSeq}
      LIMIT ${value("limit")}
    )
    SELECT ${list} FROM chain AS ${creditLedger}`,
  );

const selectNewestOfBalance = accountQuery((value: ValueOf<{ balanceId: string; limit: number }>, account) => {
  const newest = drizzle
    .select(fields(creditBalances, "lastSeq"))
    .from(creditBalances)
    .where(and(eq(creditBalances.accountId, account), eq(creditBalances.id, value("balanceId"))));
  return followChain(account, scalar(newest), value);
});
type Older = { balanceId: string; limit: number; before: number };
const selectOlderOfBalance = accountQuery((value: ValueOf<Older>, account) => {
  const older = drizzle
    .select(fields(creditLedger, "previousSeq"))
    .from(creditLedger)
    .where(and(eq(accountId, account), eq(seq, value("before")), eq(balanceId, value("balanceId"))));
  return followChain(account, scalar(older), value);
});

function historyStatement(ctx: TenantCtx, { userId, balanceId, limit }: HistoryInput, before: number | null) {
  if (balanceId === undefined) {
    return selectHistoryPage(ctx, { userId }, { limit, before: before ?? Number.MAX_SAFE_INTEGER });
  }
  if (before === null) return selectNewestOfBalance(ctx, { userId }, { limit, balanceId });
  return selectOlderOfBalance(ctx, { userId }, { limit, balanceId, before });
}
