import { desc, eq, isNotNull, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import {
  asInteger,
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
import { creditBalances, creditLedger } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";

// The statements here append entries, and triggers apply the entries to the balances. Triggers also write the entries of
// settlements (hold.ts) and of new balances (new-balances.ts). No other statement writes `remaining_steps`.

export type LedgerRow = Omit<typeof creditLedger.$inferSelect, "accountId" | "isRevoked">;
export type Cause = LedgerRow["cause"];

/** An entry that a statement wrote. */
export interface WrittenEntry {
  readonly accountId: number;
  readonly seq: number;
  readonly atMs: number;
  /** Whether it paid an owed amount in a settlement. */
  readonly paid?: 0 | 1;
}

/** A statement that writes entries, and returns them. */
export interface EntriesStatement extends Statement<WrittenEntry> {
  readonly writesEntries: true;
}

export const returningEntries = (statement: Statement<WrittenEntry>): EntriesStatement => ({
  ...statement,
  writesEntries: true,
});

export function writesEntries(statement: Statement): statement is EntriesStatement {
  return "writesEntries" in statement;
}

/** How a statement's entries change a user's credits, for alerts. Holds and their returns do not change them (H5). */
export interface Motion {
  /** The number of entries, which are the last of the batch. Ignored with `eventIds`. */
  readonly entries: number;
  /** Whether the entries add credits. */
  readonly raises: boolean;
  /** The events that settle reservations, because their debits can be anywhere in the batch. */
  readonly eventIds?: readonly string[];
}

/** Marks a statement as one that changes a user's credits. In a batch, only other marked statements may write entries after it. */
export function moving<Moving extends Statement>(statement: Moving, motion: Motion): Moving & { motion: Motion } {
  return { ...statement, motion };
}

export function motionsOf(statements: readonly (Statement & { readonly motion?: Motion })[]): Motion[] {
  return statements.flatMap(({ motion }) => motion ?? []);
}

const writtenEntryFields = fields(creditLedger, { accountId: "accountId", seq: "seq", atMs: "occurredAtMs" });

const selectSettledSql = query((value: ValueOf<WriteContext & { reservationId: string }>) =>
  drizzle
    .select({
      ...writtenEntryFields,
      ...computed({
        paid: sql<0 | 1>`${creditLedger.reason} = 'admin_adjust' AND ${creditLedger.isRevoked} = 0
          AND ${creditLedger.reservationId} IS ${value("reservationId")}`,
      }),
    })
    .from(creditLedger)
    .where(eq(creditLedger.accountId, value("accountId")))
    .orderBy(desc(creditLedger.seq))
    .limit(1),
);

/** Selects the last entry of a batch that settled a reservation: a return, a debit or, last, a payment of an owed amount. */
export function selectSettled(writing: WriteContext, reservationId: string): EntriesStatement {
  return returningEntries(selectSettledSql({ ...writingValues(writing), reservationId }));
}

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

/** Returns a condition: a balance has this id and belongs to the account. */
export const isBalanceOf = (value: ValueOf<WriteContext>, id: SQL): SQL =>
  sql`${creditBalances.accountId} = ${accountOfWrite(value)} AND ${creditBalances.id} = ${id}`;

/** One entry of one balance. */
export interface NewEntry {
  readonly balanceId: string;
  /** Negative when credits are consumed. */
  readonly deltaSteps: number;
  readonly reason: Exclude<LedgerRow["reason"], "grant">;
  readonly cause: Extract<Cause, "usage" | "hold" | "adjustment">;
  readonly eventId?: string;
  readonly reservationId?: string;
  readonly note?: string;
}

const insertEntriesSql = query((value: ValueOf<WriteContext & { entries: string }>) => {
  const insert = insertFrom(
    creditLedger,
    {
      accountId: creditBalances.accountId,
      seq: sql`${lastLedgerEntry.seq} + 1 + entry.key`,
      balanceId: creditBalances.id,
      packId: creditBalances.packId,
      unit: creditBalances.unit,
      deltaSteps: sql`entry.value ->> 'deltaSteps'`,
      balanceAfterSteps: sql`${creditBalances.remainingSteps} + (entry.value ->> 'deltaSteps')`,
      previousSeq: creditBalances.lastSeq,
      reason: sql`entry.value ->> 'reason'`,
      cause: sql`entry.value ->> 'cause'`,
      writtenBy: value("by"),
      eventId: sql`entry.value ->> 'eventId'`,
      reservationId: sql`entry.value ->> 'reservationId'`,
      note: sql`entry.value ->> 'note'`,
      occurredAtMs: lastLedgerEntry.occurredAtMs,
      isRevoked: isNotNull(creditBalances.revokedAtMs),
    },
    sql`FROM ${lastEntry(value)}, json_each(${value("entries")}) AS entry CROSS JOIN ${creditBalances}
      WHERE ${isBalanceOf(value, sql`entry.value ->> 'balanceId'`)} ORDER BY entry.key`,
  );
  return returning(writtenEntryFields, (list) => sql`${insert} RETURNING ${list}`);
});

/** The most entries of one statement. A D1 value has at most 2 MB, and each entry names its event and reservation. */
const ENTRIES_A_STATEMENT_MAX = 1_000;

/** Divides a list into parts of at most `max` elements. */
export const inSlices = <Element>(list: readonly Element[], max: number): Element[][] =>
  Array.from({ length: Math.ceil(list.length / max) }, (_, index) => list.slice(index * max, (index + 1) * max));

/**
 * Appends entries in order. A balance must not occur twice, because each entry starts from the balance before the statement. If a
 * balance would become negative, a CHECK aborts the whole batch.
 */
export function insertEntries(
  writing: WriteContext,
  all: readonly NewEntry[],
  settling: Pick<Motion, "eventIds"> = {},
): EntriesStatement[] {
  return inSlices(all, ENTRIES_A_STATEMENT_MAX).map((entries) => {
    const values = { ...writingValues(writing), entries: JSON.stringify(entries) };
    const insert = returningEntries(insertEntriesSql(values));
    if (entries.every(({ reason }) => reason === "reservation_held")) return insert;
    const raises = entries.some(({ deltaSteps }) => deltaSteps > 0);
    return moving(insert, { entries: entries.length, raises, ...settling });
  });
}
