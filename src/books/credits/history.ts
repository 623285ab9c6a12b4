import { and, desc, eq, lt, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { presenter, wire } from "../../db/presenter.ts";
import { asInteger, boundLimit, computed, drizzle, fields, read, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger, reservations, usageEvents } from "../../db/schema.ts";
import { all, type StatementRow } from "../../db/sql.ts";
import { assert, invalidCursor } from "../../errors.ts";
import { decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromMinor, type Unit } from "../amounts/amount.ts";
import { amountJson } from "../amounts/amount-sql.ts";
import { accountQuery, type OfUser } from "../ledger/account.ts";
import { authorName, authorNames } from "../ledger/author.ts";
import {
  type Cause,
  isBalanceOfEntry,
  isEventOfEntry,
  isReservationOfEntry,
  lastSeqOf,
  reservationIdOfEntry,
} from "../ledger/insert-entries.ts";
import { back, carried, walkBack } from "../ledger/walk-back.ts";
import { balanceNotFound } from "./read-balance.ts";

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
  "accountId" | "grantSeq" | "kind" | "isRevoked" | "writtenBy" | "eventSeq" | "reservationNumber"
> &
  Pick<typeof creditBalances.$inferSelect, "packId" | "unit"> & {
    readonly balanceId: string;
    readonly eventId: string | null;
    readonly reservationId: string | null;
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
  eventId: {
    of: ({ eventId }: Pick<LedgerRow, "eventId">) => eventId,
    json: () => sql`json_quote(${usageEvents.eventId})`,
  },
  reservationId: {
    of: ({ reservationId }: Pick<LedgerRow, "reservationId">) => reservationId,
    json: () => sql`json_quote(${reservationIdOfEntry()})`,
  },
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
  const entries = await readHistoryRows(ctx, input, before);
  const last = entries.at(-1);
  // Every balance has the entry of its grant, and a cursor exists only when older entries follow.
  if (last === undefined && input.balanceId !== undefined) throw balanceNotFound();
  const hasMore = last !== undefined && (input.balanceId === undefined ? last.seq > 1 : last.previousSeq !== null);
  return { rows: entries, nextCursor: hasMore ? encodeCursor(last.seq, scope) : null };
}

const { accountId, seq } = creditLedger;

const ENTRY_FIELDS = [
  ...(["deltaMinor", "balanceAfterMinor", "reason", "cause"] as const),
  ...(["writtenBy", "eventSeq", "reservationNumber", "note", "occurredAtMs"] as const),
] as const;
const entryFieldsOf = (table: typeof creditLedger | typeof back) =>
  fields(table, "seq", "previousSeq", ...ENTRY_FIELDS);
/** The fields of a `LedgerRow`. The statement joins each entry with its balance. */
const historyFields = () => ({
  ...entryFieldsOf(creditLedger),
  ...fields(creditLedger, "grantSeq"),
  ...computed({
    balanceId: sql<string | null>`${creditBalances.id}`,
    packId: sql<string | null>`${creditBalances.packId}`,
    unit: sql<Unit | null>`${creditBalances.unit}`,
  }),
  ...idsOfUsage(),
});
const idsOfUsage = () =>
  computed({ eventId: sql<string | null>`${usageEvents.eventId}`, reservationId: reservationIdOfEntry() });

type StoredEntry = Omit<LedgerRow, "writtenBy"> & {
  readonly writtenBy: number;
  readonly authors: string;
  readonly eventSeq: number | null;
  readonly reservationNumber: number | null;
};

/** Names the authors of entries, the newest first. SQLite does not guarantee the order of rows that return as one JSON text. */
const readEntries = (rows: readonly StoredEntry[]): LedgerRow[] =>
  rows
    .map(({ authors, writtenBy, eventSeq: _, reservationNumber: __, ...row }) => ({
      ...row,
      writtenBy: authorName(writtenBy, authors),
    }))
    .sort((a, b) => b.seq - a.seq);

/**
 * Selects a page of entries. Seqs have no gaps and begin at 1, so the last row of a page shows whether another page follows. Only the
 * oldest entry of each balance on the page reads the balance: its previous entry is before the page.
 */
const selectHistoryPage = accountQuery((value: ValueOf<OfUser & { before: number; limit: number }>, account) => {
  const { grantSeq, previousSeq } = creditLedger;
  const firstSeq = sql`min(${asInteger(value("before"))}, ${lastSeqOf(account)} + 1) - ${asInteger(value("limit"))}`;
  const isOldest = sql`coalesce(${previousSeq} < (SELECT ${firstSeq}), 1)`;
  return drizzle
    .select({ ...historyFields(), ...computed({ authors: authorNames(value) }) })
    .from(creditLedger)
    .leftJoin(creditBalances, isBalanceOfEntry({ accountId, grantSeq: sql`iif(${isOldest}, ${grantSeq}, NULL)` }))
    .leftJoin(usageEvents, isEventOfEntry())
    .leftJoin(reservations, isReservationOfEntry())
    .where(and(eq(accountId, account), lt(seq, value("before"))))
    .orderBy(desc(seq))
    .limit(boundLimit(value("limit")));
});

type HistoryPageRow = StatementRow<typeof selectHistoryPage>;

/** Gives each entry of a page the fields of its balance, which the oldest entry of the balance has. */
function withBalances(page: readonly HistoryPageRow[]): StoredEntry[] {
  const balances = new Map<number, Pick<LedgerRow, "balanceId" | "packId" | "unit">>();
  for (const { grantSeq, balanceId, packId, unit } of page) {
    if (balanceId !== null && packId !== null && unit !== null) balances.set(grantSeq, { balanceId, packId, unit });
  }
  return page.map(({ grantSeq, ...row }) => {
    const balance = balances.get(grantSeq);
    assert(balance !== undefined, "each balance of a page is read with its oldest entry");
    return { ...row, ...balance };
  });
}

export const readHistoryPage = async (ctx: TenantCtx, userId: string, page: { before: number; limit: number }) =>
  readEntries(withBalances(await all(ctx.db, selectHistoryPage(ctx, { userId }, page))));

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
    { ...entryFieldsOf(back), ...idsOfUsage(), ...computed({ ...ofBalance, authors: authorNames(value) }) },
    (list) =>
      sql`WITH RECURSIVE ${walk} SELECT ${list} FROM ${back} LEFT JOIN ${usageEvents} ON ${isEventOfEntry(back)}
        LEFT JOIN ${reservations} ON ${isReservationOfEntry(back)}`,
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

async function readHistoryRows(ctx: TenantCtx, { userId, balanceId, limit }: HistoryInput, before: number | null) {
  if (balanceId === undefined) {
    return readHistoryPage(ctx, userId, { limit, before: before ?? Number.MAX_SAFE_INTEGER });
  }
  const ofBalance =
    before === null
      ? selectNewestOfBalance(ctx, { userId }, { limit, balanceId })
      : selectOlderOfBalance(ctx, { userId }, { limit, balanceId, before });
  return readEntries(await all(ctx.db, ofBalance));
}
