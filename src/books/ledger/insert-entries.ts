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
import { creditBalances, creditLedger, type Steps } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { guards } from "../../db/views.ts";
import type { Unit } from "../amounts/amount.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";
import { type Motion, moving } from "./motion.ts";

/**
 * The only statements that write amounts, except settlements (hold.ts), whose entries a trigger writes. `insertBalances` issues
 * balances, and a trigger writes their entries. The others append entries, and triggers apply them to the balances. No other
 * statement writes `remaining_steps`.
 */
export type LedgerRow = Omit<typeof creditLedger.$inferSelect, "accountId" | "isRevoked">;
export type Cause = LedgerRow["cause"];

/** An entry that a statement wrote. */
export interface WrittenEntry {
  readonly accountId: number;
  readonly seq: number;
  readonly atMs: number;
  /** Whether a settlement paid an owed amount. */
  readonly paid?: 0 | 1;
}

/** A statement that writes entries, and returns them. */
interface EntriesStatement extends Statement<WrittenEntry> {
  readonly writesEntries: true;
}

const returningEntries = (statement: Statement<WrittenEntry>): EntriesStatement => ({
  ...statement,
  writesEntries: true,
});

export function writesEntries(statement: Statement): statement is EntriesStatement {
  return "writesEntries" in statement;
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

/** The last entry of a batch that settled a reservation: of its return, its debits or, last, its payment of owed amounts. */
export function selectSettled(writing: WriteContext, reservationId: string): EntriesStatement {
  return returningEntries(selectSettledSql({ ...writingValues(writing), reservationId }));
}

/** The account's last ledger seq. The writing statement reads it, so it is always current. */
export const lastSeqOf = (account: SQL) =>
  sql<number>`coalesce(${scalar(
    drizzle
      .select(fields(creditLedger, "seq"))
      .from(creditLedger)
      .where(eq(creditLedger.accountId, account))
      .orderBy(desc(creditLedger.seq))
      .limit(1),
  )}, 0)`;

/** The account's last entry, in `lastEntry`. A new entry's time is never before it. */
const lastLedgerEntry = alias(creditLedger, "last");

/** FROM: the source of `last`. An account with a balance always has an entry. */
const lastEntry = (value: ValueOf<WriteContext>) => sql`(
  SELECT ${creditLedger.seq}, max(${creditLedger.occurredAtMs}, ${asInteger(value("nowMs"))}) AS ${names(lastLedgerEntry.occurredAtMs)}
  FROM ${creditLedger} WHERE ${creditLedger.accountId} = ${accountOfWrite(value)} ORDER BY ${creditLedger.seq} DESC LIMIT 1
) AS ${lastLedgerEntry}`;

/** Whether a balance has this id and belongs to the account. */
export const isBalanceOf = (value: ValueOf<WriteContext>, id: SQL): SQL =>
  sql`${creditBalances.accountId} = ${accountOfWrite(value)} AND ${creditBalances.id} = ${id}`;

/** The fields of one balance of a grant. */
export interface NewBalance {
  readonly id: string;
  readonly packItemId: string;
  readonly unit: Unit;
  /** JSON list of match rules. */
  readonly matches: string;
  readonly priority: number;
  readonly amountSteps: Steps;
}

/** The common fields of all balances of a grant. */
export interface NewBalances {
  readonly packId: string;
  readonly packName: string;
  readonly source: (typeof creditBalances.source.enumValues)[number];
  readonly cause: Extract<Cause, "grant" | "recurring" | "payment">;
  readonly externalRef: string | null;
  readonly notes: string | null;
  readonly expiresAtMs: number;
  readonly balances: readonly NewBalance[];
}

const insertBalancesSql = query((value: ValueOf<WriteContext & { grant: string; balances: string }>) => {
  const seq = sql`${lastLedgerEntry.seq} + 1 + issued.key`;
  const insert = insertFrom(
    creditBalances,
    {
      accountId: accountOfWrite(value),
      id: sql`issued.value ->> 'id'`,
      packId: sql`common.value ->> 'packId'`,
      packName: sql`common.value ->> 'packName'`,
      packItemId: sql`issued.value ->> 'packItemId'`,
      unit: sql`issued.value ->> 'unit'`,
      matches: sql`issued.value ->> 'matches'`,
      priority: sql`issued.value ->> 'priority'`,
      initialSteps: sql`issued.value ->> 'amountSteps'`,
      remainingSteps: sql`issued.value ->> 'amountSteps'`,
      hasRemaining: sql`1`,
      source: sql`common.value ->> 'source'`,
      grantCause: sql`common.value ->> 'cause'`,
      grantedBy: value("by"),
      externalRef: sql`common.value ->> 'externalRef'`,
      notes: sql`common.value ->> 'notes'`,
      grantedAtMs: lastLedgerEntry.occurredAtMs,
      expiresAtMs: sql`common.value ->> 'expiresAtMs'`,
      grantSeq: seq,
      lastSeq: seq,
    },
    // This gives a row even if the account has no entry yet.
    sql`FROM json_each(${value("grant")}) AS common, json_each(${value("balances")}) AS issued, (
      SELECT coalesce(max(${lastLedgerEntry.seq}), 0) AS ${names(lastLedgerEntry.seq)},
        max(coalesce(max(${lastLedgerEntry.occurredAtMs}), 0), ${asInteger(value("nowMs"))}) AS ${names(lastLedgerEntry.occurredAtMs)}
      FROM ${lastEntry(value)}
    ) AS ${lastLedgerEntry} WHERE 1 ORDER BY issued.key`,
  );
  const written = fields(creditBalances, { accountId: "accountId", seq: "grantSeq", atMs: "grantedAtMs" });
  return returning(written, (list) => sql`${insert} RETURNING ${list}`);
});

/** Issues all balances of a grant. If they exist already, fails with `credit_balances_external_ref` or `credit_balances_id`. */
export function insertBalances(writing: WriteContext, { balances, ...grant }: NewBalances): EntriesStatement {
  // Numbers are sent in JSON, because D1 binds them as REAL.
  const values = { grant: JSON.stringify([grant]), balances: JSON.stringify(balances) };
  const insert = returningEntries(insertBalancesSql({ ...writingValues(writing), ...values }));
  return moving(insert, { entries: balances.length, lifts: true });
}

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
const entriesMax = 1_000;

/**
 * Appends entries in order. An empty list gives no statement. A balance must not occur twice, because each entry starts from the
 * balance before the statement. If a balance would become negative, a CHECK aborts the whole batch.
 */
export function insertEntries(
  writing: WriteContext,
  all: readonly NewEntry[],
  of: Pick<Motion, "eventIds"> = {},
): EntriesStatement[] {
  if (all.length === 0) return [];
  const entries = all.slice(0, entriesMax);
  const values = { ...writingValues(writing), entries: JSON.stringify(entries) };
  const insert = returningEntries(insertEntriesSql(values));
  const rest = insertEntries(writing, all.slice(entriesMax), of);
  if (entries.every(({ reason }) => reason === "reservation_held")) return [insert, ...rest];
  const lifts = entries.some(({ deltaSteps }) => deltaSteps > 0);
  return [moving(insert, { entries: entries.length, lifts, ...of }), ...rest];
}

/** Writes an entry `admin_adjust` for each balance that `from` joins, in order of `position`, which starts at 0. */
export const insertAdjustments = (
  value: ValueOf<WriteContext & { note: string | null }>,
  { position, delta, isRevoked, cause }: Readonly<Record<"position" | "delta" | "isRevoked" | "cause", SQL>>,
  from: SQL,
): SQL =>
  insertFrom(
    creditLedger,
    {
      accountId: creditBalances.accountId,
      seq: sql`${lastLedgerEntry.seq} + 1 + ${position}`,
      balanceId: creditBalances.id,
      packId: creditBalances.packId,
      unit: creditBalances.unit,
      deltaSteps: delta,
      balanceAfterSteps: sql`${creditBalances.remainingSteps} + ${delta}`,
      previousSeq: creditBalances.lastSeq,
      reason: sql`'admin_adjust'`,
      cause,
      writtenBy: value("by"),
      note: value("note"),
      occurredAtMs: lastLedgerEntry.occurredAtMs,
      isRevoked,
    },
    sql`FROM ${lastEntry(value)}, ${from}`,
  );

type Reversal = WriteContext & { balanceId: string; note: string | null };
const insertReversalSql = query((value: ValueOf<Reversal>) =>
  insertAdjustments(
    value,
    { position: sql`0`, delta: sql`-${creditBalances.remainingSteps}`, isRevoked: sql`1`, cause: sql`'revoke'` },
    sql`${creditBalances} WHERE ${isBalanceOf(value, sql`${value("balanceId")}`)}`,
  ),
);

/** The only entry of a revoke: it takes the remaining amount, even if that is 0. */
export const insertReversal = (reversal: Reversal): Statement =>
  moving(insertReversalSql(reversal), { entries: 1, lifts: false });

/** Aborts the batch with `guard_balance` when one of these balances was revoked meanwhile. */
export const guardNoneRevoked = query((value: ValueOf<{ balanceIds: string }>) => {
  const revoked = sql`
    SELECT 1 FROM json_each(${value("balanceIds")}) AS item
    CROSS JOIN ${creditBalances} ON ${creditBalances.id} = item.value
    WHERE ${creditBalances.revokedAtMs} IS NOT NULL`;
  return insertFrom(guards, { name: sql`'balance'`, holds: sql`NOT EXISTS (${revoked})` }, sql``);
});

/** The amount that a refund takes from one balance. */
export interface Taking {
  readonly balanceId: string;
  /** The amount due. Less is taken if the balance has less. */
  readonly dueSteps: Steps;
  /** Whether the whole remaining amount is taken, and the balance revoked. */
  readonly revokes: boolean;
}

/** The cause of the takings, and the note of their entries. */
type Taken = { cause: Extract<Cause, "refund" | "revoke" | "erasure">; note: string | null };

const insertTakingsSql = query((value: ValueOf<WriteContext & Taken & { takings: string }>) => {
  const remaining = creditBalances.remainingSteps;
  return insertAdjustments(
    value,
    {
      position: sql`taking.key`,
      cause: sql`${value("cause")}`,
      isRevoked: sql`(taking.value ->> 'revokes' OR ${creditBalances.revokedAtMs} IS NOT NULL)`,
      delta: sql`-iif(taking.value ->> 'revokes', ${remaining}, min(${remaining}, taking.value ->> 'dueSteps'))`,
    },
    sql`json_each(${value("takings")}) AS taking CROSS JOIN ${creditBalances}
      WHERE ${isBalanceOf(value, sql`taking.value ->> 'balanceId'`)} ORDER BY taking.key`,
  );
});

/** Writes the entries of a refund, one for each balance, in order. The available amount is read as each is written. */
export function insertTakings(writing: WriteContext, takings: readonly Taking[], taken: Taken): Statement {
  const insert = insertTakingsSql({ ...writingValues(writing), takings: JSON.stringify(takings), ...taken });
  return moving(insert, { entries: takings.length, lifts: false });
}
