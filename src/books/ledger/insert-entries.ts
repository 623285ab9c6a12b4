import { and, desc, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import {
  asInteger,
  type ColumnsOf,
  computed,
  drizzle,
  fields,
  insertFrom,
  names,
  query,
  returning,
  scalar,
  type ValueOf,
} from "../../db/query.ts";
import { creditBalances, creditLedger, ENTRY_KINDS, reservations, usageEvents } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";
import { authorOfWrite } from "./author.ts";
import { type CountedEntry, countedEntry } from "./count-entries.ts";

// The statements here append entries, and triggers apply the entries to the balances. A trigger also writes the entries of new
// balances (new-balances.ts). No other statement writes `remaining_minor`.

export type Cause = (typeof creditLedger.$inferSelect)["cause"];
export type EntryKind = keyof typeof ENTRY_KINDS;

/** An entry that a statement wrote. */
export interface WrittenEntry {
  readonly accountId: number;
  readonly seq: number;
  readonly atMs: number;
  /** Null for usage and holds, and absent for grants. */
  readonly counted?: CountedEntry | null;
}

/** A statement that writes entries, and returns them. */
export interface EntriesStatement extends Statement<WrittenEntry> {
  readonly writesEntries: true;
}

export const returningEntries = (statement: Statement<WrittenEntry>): EntriesStatement => ({
  ...statement,
  writesEntries: true,
});

function writesEntries(statement: Statement): statement is EntriesStatement {
  return "writesEntries" in statement;
}

/** Returns the entries that statements wrote, from the rows of their batch. */
export const entriesAmong = (statements: readonly Statement[], rows: readonly unknown[][]): WrittenEntry[] =>
  statements.flatMap((statement, index) =>
    // `writesEntries` proves the type of the statement's rows.
    writesEntries(statement) ? (rows[index] as WrittenEntry[]) : [],
  );

/** How a statement's entries change a user's credits, for alerts. Holds and their returns do not change them (H5). */
export interface CreditMovement {
  /** The number of entries, which are the last of the batch. 0 with `eventIds`. */
  readonly entries: number;
  /** Whether the entries add credits. */
  readonly raises: boolean;
  /** The events that settle reservations, because their debits can be anywhere in the batch. */
  readonly eventIds?: readonly string[];
}

/** Marks a statement as one that changes a user's credits. In a batch, only other marked statements may write entries after it. */
export function changingCredits<Written extends Statement>(
  statement: Written,
  change: CreditMovement,
): Written & { change: CreditMovement } {
  return { ...statement, change };
}

export function readCreditMovements(
  statements: readonly (Statement & { readonly change?: CreditMovement })[],
): CreditMovement[] {
  return statements.flatMap(({ change }) => change ?? []);
}

/** The fields of an entry for RETURNING. */
export const writtenEntryFields = () => ({
  ...fields(creditLedger, { accountId: "accountId", seq: "seq", atMs: "occurredAtMs" }),
  ...computed({ counted: countedEntry() }),
});

/** Returns SQL for the account's last ledger seq. The writing statement itself reads it, so it is always current. */
export const lastSeqOf = (account: SQL) =>
  sql<number>`coalesce(${scalar(
    drizzle
      .select(fields(creditLedger, "seq"))
      .from(creditLedger)
      .where(eq(creditLedger.accountId, account))
      .orderBy(desc(creditLedger.seq))
      .limit(1),
  )}, 0)`;

/** The account's last entry, as `lastEntry` selects it. The time of a new entry is never earlier. */
export const lastLedgerEntry = alias(creditLedger, "last");

/** The FROM clause for `lastLedgerEntry`. An account with a balance always has an entry. */
export const lastEntry = (value: ValueOf<WriteContext>) => sql`(
  SELECT ${creditLedger.seq}, max(${creditLedger.occurredAtMs}, ${asInteger(value("nowMs"))}) AS ${names(lastLedgerEntry.occurredAtMs)}
  FROM ${creditLedger} WHERE ${creditLedger.accountId} = ${accountOfWrite(value)} ORDER BY ${creditLedger.seq} DESC LIMIT 1
) AS ${lastLedgerEntry}`;

/** Returns a condition: a balance is that of an entry. The plus keeps SQLite from finding the account again for each balance. */
export const isBalanceOfEntry = (
  entry: { readonly [Name in "accountId" | "grantSeq"]: SQL | SQLiteColumn } = creditLedger,
): SQL => sql`${creditBalances.accountId} = +${entry.accountId} AND ${creditBalances.grantSeq} = ${entry.grantSeq}`;

/** Returns a condition: an event is the one that an entry pays for. Left-join it. */
export const isEventOfEntry = (
  entry: Pick<ColumnsOf<typeof creditLedger>, "accountId" | "eventSeq"> = creditLedger,
): SQL => sql`${usageEvents.accountId} = ${entry.accountId} AND ${usageEvents.seq} = ${entry.eventSeq}`;

/** Returns a condition: a reservation is the one that an entry holds for or returns. Left-join it. */
export const isReservationOfEntry = (
  entry: Pick<ColumnsOf<typeof creditLedger>, "accountId" | "reservationNumber"> = creditLedger,
): SQL =>
  sql`${reservations.accountId} = ${entry.accountId} AND ${reservations.reservationNumber} = ${entry.reservationNumber}`;

/** SQL: the id of an entry's reservation. A debit's event has it. */
export const reservationIdOfEntry = () =>
  sql<string | null>`coalesce(${reservations.id}, ${usageEvents.reservationId})`;

/** Returns a condition: a balance has this id and belongs to the account. */
export const isBalanceOf = (value: ValueOf<WriteContext>, id: SQL): SQL =>
  sql`${creditBalances.accountId} = ${accountOfWrite(value)} AND ${creditBalances.id} = ${id}`;

/** One entry of one balance. It is relative: the database knows the amounts before and after it. */
export interface NewEntry {
  readonly balanceId: string;
  /** Negative when credits are consumed. */
  readonly deltaMinor: number;
  /** Absent for an entry that repeats another's. */
  readonly kind?: Extract<EntryKind, "usage" | "hold" | "released" | "expired" | "adjustment">;
  readonly eventId?: string;
  /** `new`: that of the reservation that the batch has just made. */
  readonly reservationNumber?: number | "new";
  readonly note?: string;
  /** The seq of an earlier entry, whose kind and note it repeats. */
  readonly repeatsSeq?: number;
  /** Whether the plan says that the balance is revoked. The batch aborts if it is not so. Absent: as it is. */
  readonly isRevoked?: 0 | 1;
}

const repeated = alias(creditLedger, "repeated");

/** Returns SQL for the seq of an event, which is written before its entries. Null if the id is null. */
export const seqOfEvent = (value: ValueOf<{ environmentId: number }>, id: SQL) =>
  scalar(
    drizzle
      .select(fields(usageEvents, "seq"))
      .from(usageEvents)
      .where(and(eq(usageEvents.environmentId, value("environmentId")), sql`${usageEvents.eventId} = ${id}`)),
  );

/** Returns SQL for the number of the account's last reservation, 0 if there is none. */
export const lastReservationOf = (value: ValueOf<WriteContext>) =>
  sql<number>`coalesce(${scalar(
    drizzle
      .select(fields(reservations, "reservationNumber"))
      .from(reservations)
      .where(eq(reservations.accountId, accountOfWrite(value)))
      .orderBy(desc(reservations.reservationNumber))
      .limit(1),
  )}, 0)`;

const insertEntriesSql = query((value: ValueOf<WriteContext & { entries: string }>) => {
  const repeat = (column: SQL) => sql`(
    SELECT ${column} FROM ${creditLedger} AS ${repeated}
    WHERE ${repeated.accountId} = ${creditBalances.accountId} AND ${repeated.seq} = entry.value ->> 'repeatsSeq'
  )`;
  const insert = insertFrom(
    creditLedger,
    {
      accountId: creditBalances.accountId,
      seq: sql`${lastLedgerEntry.seq} + 1 + entry.key`,
      grantSeq: creditBalances.grantSeq,
      deltaMinor: sql`entry.value ->> 'deltaMinor'`,
      balanceAfterMinor: sql`${creditBalances.remainingMinor} + (entry.value ->> 'sumMinor')`,
      previousSeq: sql`coalesce(${lastLedgerEntry.seq} + 1 + (entry.value ->> 'previous'), ${creditBalances.lastSeq})`,
      kind: sql`coalesce(entry.value ->> 'kind', ${repeat(sql`${repeated.kind}`)})`,
      writtenBy: authorOfWrite(value),
      eventSeq: seqOfEvent(value, sql`entry.value ->> 'eventId'`),
      reservationNumber: sql`iif(entry.value ->> 'reservationNumber' = 'new', ${lastReservationOf(value)}, entry.value ->> 'reservationNumber')`,
      note: sql`coalesce(entry.value ->> 'note', ${repeat(sql`${repeated.note}`)})`,
      occurredAtMs: lastLedgerEntry.occurredAtMs,
      isRevoked: sql`coalesce(entry.value ->> 'isRevoked', ${creditBalances.revokedAtMs} IS NOT NULL)`,
    },
    sql`FROM ${lastEntry(value)}, json_each(${value("entries")}) AS entry CROSS JOIN ${creditBalances}
      WHERE ${isBalanceOf(value, sql`entry.value ->> 'balanceId'`)} ORDER BY entry.key`,
  );
  return returning(writtenEntryFields(), (list) => sql`${insert} RETURNING ${list}`);
});

/** The most entries of one statement. A D1 value has at most 2 MB, and each entry names its balance and event. */
const ENTRIES_A_STATEMENT_MAX = 1_000;

/** Divides a list into parts of at most `max` elements. */
export const inSlices = <Element>(list: readonly Element[], max: number): Element[][] =>
  Array.from({ length: Math.ceil(list.length / max) }, (_, index) => list.slice(index * max, (index + 1) * max));

/** Appends entries in order. If a balance would become negative, a CHECK aborts the whole batch. */
export function insertEntries(writing: WriteContext, all: readonly NewEntry[]): EntriesStatement[] {
  return inSlices(all, ENTRIES_A_STATEMENT_MAX).map((slice) => {
    const entries = JSON.stringify(chained(slice));
    return returningEntries(insertEntriesSql({ ...writingValues(writing), entries }));
  });
}

/** Adds to each entry the sum of its balance's entries so far, and the place of the previous one, within one statement. */
function chained(entries: readonly NewEntry[]): object[] {
  const last = new Map<string, { readonly sumMinor: number; readonly place: number }>();
  return entries.map((entry, place) => {
    const before = last.get(entry.balanceId);
    const sumMinor = (before?.sumMinor ?? 0) + entry.deltaMinor;
    last.set(entry.balanceId, { sumMinor, place });
    const kind = entry.kind === undefined ? {} : { kind: ENTRY_KINDS[entry.kind] };
    return { ...entry, ...kind, sumMinor, ...(before === undefined ? {} : { previous: before.place }) };
  });
}
