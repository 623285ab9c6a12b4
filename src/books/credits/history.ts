import { and, desc, eq, lt, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { presenter, wire } from "../../db/presenter.ts";
import { asInteger, boundLimit, computed, drizzle, fields, read, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { amountJson, fromMinor, type Unit } from "../amounts/amount.ts";
import { accountQuery, type OfUser } from "../ledger/account.ts";
import { authorName, authorNames } from "../ledger/author.ts";
import { type Cause, isBalanceOfEntry, lastSeqOf } from "../ledger/insert-entries.ts";
import { back, carried, walkBack } from "../ledger/walk-back.ts";
import { balanceNotFound, showBalance, shownBalanceFields } from "./read-balance.ts";

export interface HistoryOutput {
  readonly entries: {
    readonly id: string;
    readonly balanceId: string;
    readonly packId: string;
    readonly delta: number;
    readonly unit: Unit;
    readonly reason:
      | "admin_adjust"
      | "event_committed"
      | "grant"
      | "reservation_expired"
      | "reservation_held"
      | "reservation_released";
    readonly cause: Cause;
    readonly eventId: string | null;
    readonly reservationId: string | null;
    readonly occurredAt: string;
    readonly note: string | null;
    readonly by: string;
  }[];
  readonly nextCursor: string | null;
}

export interface HistoryInput {
  readonly userId: string;
  readonly limit: number;
  readonly balanceId?: string | undefined;
  readonly cursor?: string | undefined;
}

const { plain, time } = wire(creditLedger);
const ofBalance = wire(creditBalances);

/** A ledger entry with the fields of its balance. */
export type LedgerRow = Omit<
  typeof creditLedger.$inferSelect,
  "accountId" | "grantSeq" | "kind" | "isRevoked" | "writtenBy"
> &
  Pick<typeof creditBalances.$inferSelect, "packId" | "unit"> & {
    readonly balanceId: string;
    /** The name of its author. */
    readonly writtenBy: string;
  };

/** A ledger entry in a person's export. Its id combines the balance's id and the entry's seq, which are unique together. */
export const exportedEntryFields = {
  id: {
    of: ({ balanceId, seq }: Pick<LedgerRow, "balanceId" | "seq">) => `led_${balanceId.slice("crb_".length)}_${seq}`,
    json: () => sql`json_quote('led_' || substr(${creditBalances.id}, 5) || '_' || ${creditLedger.seq})`,
  },
  balanceId: {
    of: ({ balanceId }: Pick<LedgerRow, "balanceId">) => balanceId,
    json: () => sql`json_quote(${creditBalances.id})`,
  },
  packId: ofBalance.plain("packId"),
  delta: {
    of: ({ unit, deltaMinor }: Pick<LedgerRow, "unit" | "deltaMinor">) => fromMinor(unit, deltaMinor),
    json: () => amountJson(creditLedger.deltaMinor, creditBalances.unit),
  },
  unit: ofBalance.plain("unit"),
  reason: plain("reason"),
  cause: plain("cause"),
  eventId: plain("eventId"),
  reservationId: plain("reservationId"),
  occurredAt: time("occurredAtMs"),
  note: plain("note"),
};

export const presentExportedEntry = presenter(exportedEntryFields);

/** A ledger entry as the API returns it (C16). */
const presentEntry = (row: LedgerRow) => ({ ...presentExportedEntry(row), by: row.writtenBy });

/**
 * Returns a page of the user's ledger, newest first; only entries of `balanceId` if it is given. The cursor has the seq of the
 * page's last entry, so that new entries do not shift pages. Throws `credit_balance_not_found` (C16, C17).
 */
export async function listEntries(ctx: TenantCtx, input: HistoryInput): Promise<HistoryOutput> {
  const { rows: entries, nextCursor } = await ledgerPage(ctx, input);
  return { entries: entries.map(presentEntry), nextCursor };
}

export interface LedgerPage {
  readonly rows: readonly LedgerRow[];
  readonly nextCursor: string | null;
}

const scopeOf = (ctx: TenantCtx, input: HistoryInput) => [ctx.environment.id, input.userId, input.balanceId ?? ""];

/** Returns the rows of `listEntries`, which also have the balance after each entry. */
export async function ledgerPage(ctx: TenantCtx, input: HistoryInput): Promise<LedgerPage> {
  const scope = scopeOf(ctx, input);
  const before = input.cursor === undefined ? null : decodeCursor(input.cursor, scope);
  if (input.cursor !== undefined && before === null) {
    throw invalidCursor();
  }
  const entries = readEntries(await all(ctx.db, historyStatement(ctx, input, before)));
  const last = entries.at(-1);
  // Every balance has the entry of its grant, and a cursor exists only when older entries follow.
  if (last === undefined && input.balanceId !== undefined) throw balanceNotFound();
  const hasMore = last !== undefined && (input.balanceId === undefined ? last.seq > 1 : last.previousSeq !== null);
  return { rows: entries, nextCursor: hasMore ? encodeCursor(last.seq, scope) : null };
}

const { accountId, seq } = creditLedger;

const ENTRY_FIELDS = [
  ...(["deltaMinor", "balanceAfterMinor", "reason", "cause"] as const),
  ...(["writtenBy", "eventId", "reservationId", "note", "occurredAtMs"] as const),
] as const;
const entryFieldsOf = (table: typeof creditLedger | typeof back) =>
  fields(table, "seq", "previousSeq", ...ENTRY_FIELDS);
/** The fields of a `LedgerRow`. The statement joins each entry with its balance. */
const historyFields = () => ({
  ...entryFieldsOf(creditLedger),
  ...fields(creditBalances, { balanceId: "id", packId: "packId", unit: "unit" }),
});

type StoredEntry = Omit<LedgerRow, "writtenBy"> & { readonly writtenBy: number; readonly authors: string };

/** Names the authors of entries, the newest first. SQLite does not guarantee the order of rows that return as one JSON text. */
const readEntries = (rows: readonly StoredEntry[]): LedgerRow[] =>
  rows
    .map(({ authors, writtenBy, ...row }) => ({ ...row, writtenBy: authorName(writtenBy, authors) }))
    .sort((a, b) => b.seq - a.seq);

/** Selects a page of entries. Seqs have no gaps and begin at 1, so the last row of a page shows whether another page follows. */
const selectHistoryPage = accountQuery((value: ValueOf<OfUser & { before: number; limit: number }>, account) =>
  drizzle
    .select({ ...historyFields(), ...computed({ authors: authorNames(value) }) })
    .from(creditLedger)
    .crossJoin(creditBalances)
    .where(and(eq(accountId, account), lt(seq, value("before")), isBalanceOfEntry()))
    .orderBy(desc(seq))
    .limit(boundLimit(value("limit"))),
);

/** Selects a balance's entries from the entry `start` backwards. It needs no index and no scan, and reads the balance once. */
const followChain = (account: SQL, start: SQL, value: ValueOf<OfUser & { balanceId: string; limit: number }>) => {
  const { id, packId, unit } = creditBalances;
  const walk = walkBack({
    columns: ENTRY_FIELDS,
    carries: [id, packId, unit],
    start: sql`${creditBalances} CROSS JOIN ${creditLedger} WHERE ${id} = ${value("balanceId")}
      AND +${creditBalances.accountId} = ${account} AND ${accountId} = ${creditBalances.accountId} AND ${seq} = ${start}`,
    limit: asInteger(value("limit")),
  });
  const ofBalance = {
    balanceId: sql<string>`${carried(id)}`,
    packId: sql<string>`${carried(packId)}`,
    unit: sql<Unit>`${carried(unit)}`,
  };
  return read(
    { ...entryFieldsOf(back), ...computed({ ...ofBalance, authors: authorNames(value) }) },
    (list) => sql`WITH RECURSIVE ${walk} SELECT ${list} FROM ${back}`,
  );
};

const selectNewestOfBalance = accountQuery((value: ValueOf<OfUser & { balanceId: string; limit: number }>, account) =>
  followChain(account, sql`${creditBalances.lastSeq}`, value),
);
type OlderEntries = OfUser & { balanceId: string; limit: number; before: number };
const selectOlderOfBalance = accountQuery((value: ValueOf<OlderEntries>, account) => {
  const before = alias(creditLedger, "before");
  const older = sql`(
    SELECT ${before.previousSeq} FROM ${creditLedger} AS ${before}
    WHERE ${before.accountId} = ${creditBalances.accountId} AND ${before.seq} = ${value("before")}
      AND ${before.grantSeq} = ${creditBalances.grantSeq}
  )`;
  return followChain(account, older, value);
});

function historyStatement(ctx: TenantCtx, { userId, balanceId, limit }: HistoryInput, before: number | null) {
  if (balanceId === undefined) {
    return selectHistoryPage(ctx, { userId }, { limit, before: before ?? Number.MAX_SAFE_INTEGER });
  }
  if (before === null) return selectNewestOfBalance(ctx, { userId }, { limit, balanceId });
  return selectOlderOfBalance(ctx, { userId }, { limit, balanceId, before });
}

/** Returns a user's newest entries before a moment, newest first: at most `limit`. */
export async function entriesBefore(ctx: TenantCtx, userId: string, beforeMs: number | null, limit: number) {
  const before = beforeMs === null ? Number.MAX_SAFE_INTEGER : await firstSeqFrom(ctx, userId, beforeMs);
  return readEntries(await all(ctx.db, selectHistoryPage(ctx, { userId }, { limit, before })));
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

/**
 * Returns the query for each account's first seq at a moment or later, or its last seq plus one if there is no such entry. Uses
 * binary search. `selectAccounts` is a SELECT with the column `account`.
 */
export function readFirstSeqs(selectAccounts: SQL, value: ValueOf<{ atMs: number }>) {
  const { accountId, seq, occurredAtMs } = creditLedger;
  const isBefore = sql`${occurredAtMs} < ${value("atMs")}`;
  return read(
    computed({ accountId: sql<number>`half.account`, seq: sql<number>`half.low` }),
    (list) => sql`WITH RECURSIVE half (account, low, high) AS (
      SELECT account, 1, 1 + ${lastSeqOf(sql`account`)} FROM (${selectAccounts})
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
