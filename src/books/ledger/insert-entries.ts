import type { creditLedger, Steps } from "../../db/schema.ts";
import { fragment, nowMsSql, type Statement, statement } from "../../db/sql.ts";
import type { Unit } from "../amounts/amount.ts";
import { accountSql, type WriteContext, writingValues } from "./account.ts";
import { type Motion, moving } from "./motion.ts";

/**
 * The only statements that write amounts, beside settlements (hold.ts), whose entries a trigger writes. `insertBalances` issues
 * balances; a trigger writes their ledger entries. The others append entries; triggers apply them to the balances. Nothing else
 * writes `remaining_steps`.
 */
export type LedgerRow = Omit<typeof creditLedger.$inferSelect, "accountId" | "isRevoked">;

/** An entry that a statement wrote. */
export interface WrittenEntry {
  readonly accountId: number;
  readonly seq: number;
  readonly atMs: number;
  /** Whether a settlement paid something that was owed. */
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

const selectSettledSql = statement<WriteContext & { reservationId: string }, WrittenEntry>`
  SELECT account_id AS accountId, seq, occurred_at_ms AS atMs,
    reason = 'admin_adjust' AND is_revoked = 0 AND reservation_id IS :reservationId AS paid
  FROM credit_ledger WHERE account_id = :accountId ORDER BY seq DESC LIMIT 1`;

/** The last entry of a batch that settled a reservation: triggers wrote it, or what was debited. What is owed is paid last. */
export function selectSettled(writing: WriteContext, reservationId: string): EntriesStatement {
  return returningEntries(selectSettledSql({ ...writingValues(writing), reservationId }));
}

/** The account's last ledger seq. It is read by the statement that writes, so it is always current. */
export const lastSeq = fragment`coalesce((SELECT seq FROM credit_ledger WHERE account_id = ${accountSql} ORDER BY seq DESC LIMIT 1), 0)`;

/** The account's last entry, for what is written after it: an account that has a balance has an entry. */
export const lastEntry = fragment`(
  SELECT seq, max(occurred_at_ms, ${nowMsSql}) AS now_ms FROM credit_ledger WHERE account_id = ${accountSql}
  ORDER BY seq DESC LIMIT 1
)`;

/** What a grant decides about one balance. */
export interface NewBalance {
  readonly id: string;
  readonly packItemId: string;
  readonly unit: Unit;
  /** JSON list of match rules. */
  readonly matches: string;
  readonly priority: number;
  readonly amountSteps: Steps;
}

/** What all balances of one grant have in common. */
export interface NewBalances {
  readonly packId: string;
  readonly packName: string;
  readonly source: string;
  readonly externalRef: string | null;
  readonly notes: string | null;
  readonly expiresAtMs: number;
  readonly balances: readonly NewBalance[];
}

const insertBalancesSql = statement<WriteContext & { grant: string; balances: string }, WrittenEntry>`
  INSERT INTO credit_balances (
    account_id, id, pack_id, pack_name, pack_item_id, unit, matches, priority, initial_steps, remaining_steps,
    has_remaining, source, external_ref, notes, granted_at_ms, expires_at_ms, grant_seq, last_seq
  )
  SELECT ${accountSql}, new.value ->> 'id', common.value ->> 'packId', common.value ->> 'packName',
    new.value ->> 'packItemId', new.value ->> 'unit', new.value ->> 'matches', new.value ->> 'priority',
    new.value ->> 'amountSteps', new.value ->> 'amountSteps', 1, common.value ->> 'source',
    common.value ->> 'externalRef', common.value ->> 'notes', last.now_ms, common.value ->> 'expiresAtMs',
    last.seq + 1 + new.key, last.seq + 1 + new.key
  FROM json_each(:grant) AS common, json_each(:balances) AS new, (
    SELECT coalesce(max(seq), 0) AS seq, max(coalesce(max(now_ms), 0), ${nowMsSql}) AS now_ms FROM ${lastEntry}
  ) AS last
  WHERE 1
  ORDER BY new.key
  RETURNING account_id AS accountId, grant_seq AS seq, granted_at_ms AS atMs`;

/** Issues all balances of a grant. If they exist already, fails with `credit_balances_external_ref` or `credit_balances_id`. */
export function insertBalances(writing: WriteContext, { balances, ...grant }: NewBalances): EntriesStatement {
  // JSON carries the numbers: D1 binds them as REAL.
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
  readonly eventId?: string;
  readonly reservationId?: string;
  readonly note?: string;
}

const insertEntriesSql = statement<WriteContext & { entries: string }, WrittenEntry>`
  INSERT INTO credit_ledger (
    account_id, seq, balance_id, pack_id, unit, delta_steps, balance_after_steps, previous_seq, reason, event_id,
    reservation_id, note, occurred_at_ms, is_revoked
  )
  SELECT b.account_id, last.seq + 1 + entry.key, b.id, b.pack_id, b.unit, entry.value ->> 'deltaSteps',
    b.remaining_steps + (entry.value ->> 'deltaSteps'), b.last_seq, entry.value ->> 'reason',
    entry.value ->> 'eventId', entry.value ->> 'reservationId', entry.value ->> 'note', last.now_ms,
    b.revoked_at_ms IS NOT NULL
  FROM ${lastEntry} AS last, json_each(:entries) AS entry
  CROSS JOIN credit_balances AS b
  WHERE b.account_id = ${accountSql} AND b.id = entry.value ->> 'balanceId'
  ORDER BY entry.key
  RETURNING account_id AS accountId, seq, occurred_at_ms AS atMs`;

/** Of one statement. A value of D1 has 2 MB, and each entry names its event and reservation. */
const entriesMax = 1_000;

/**
 * Appends entries in their order. An empty list gives no statement. No balance may appear twice, because each entry starts
 * from the balance before the statement. If a balance would become negative, a CHECK aborts the whole batch.
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

/**
 * SQL: entries `admin_adjust` with the note `:note`. Several are to be written in the order of their `seq`. `rows` is what follows `SELECT b.*` of the balances
 * `b`: the columns `seq`, `now_ms`, `delta` and `is_revoked`, and where they are from.
 */
export const insertAdjustmentsSql = (rows: string): string => fragment`
  INSERT INTO credit_ledger (
    account_id, seq, balance_id, pack_id, unit, delta_steps, balance_after_steps, previous_seq, reason, note,
    occurred_at_ms, is_revoked
  )
  SELECT account_id, seq, id, pack_id, unit, delta, remaining_steps + delta, last_seq, 'admin_adjust', :note, now_ms, is_revoked
  FROM (SELECT b.*, ${rows})`;

type Reversal = WriteContext & { balanceId: string; note: string | null };
const insertReversalSql = statement<Reversal>`
  ${insertAdjustmentsSql(fragment`last.seq + 1 AS seq, last.now_ms, 1 AS is_revoked, -b.remaining_steps AS delta
    FROM ${lastEntry} AS last CROSS JOIN credit_balances AS b
    WHERE b.account_id = ${accountSql} AND b.id = :balanceId`)}`;

/** The only entry of a revoke: it takes the remaining amount, also when that is 0. */
export const insertReversal = (reversal: Reversal): Statement =>
  moving(insertReversalSql(reversal), { entries: 1, lifts: false });

/** What a refund asks of one balance. */
export interface Taking {
  readonly balanceId: string;
  /** Taken as far as it is there. */
  readonly dueSteps: Steps;
  /** Whether whatever remains is taken, and the balance is revoked. */
  readonly revokes: boolean;
}

const insertTakingsSql = statement<WriteContext & { takings: string; note: string | null }>`
  ${insertAdjustmentsSql(fragment`last.seq + 1 + taking.key AS seq, last.now_ms,
      taking.value ->> 'revokes' OR b.revoked_at_ms IS NOT NULL AS is_revoked,
      -iif(taking.value ->> 'revokes', b.remaining_steps, min(b.remaining_steps, taking.value ->> 'dueSteps')) AS delta
    FROM ${lastEntry} AS last, json_each(:takings) AS taking CROSS JOIN credit_balances AS b
    WHERE b.account_id = ${accountSql} AND b.id = taking.value ->> 'balanceId'`)} ORDER BY seq`;

/** The entries of a refund, one of each balance, in their order. What is there is judged as they are written. */
export function insertTakings(writing: WriteContext, takings: readonly Taking[], note: string | null): Statement {
  const insert = insertTakingsSql({ ...writingValues(writing), takings: JSON.stringify(takings), note });
  return moving(insert, { entries: takings.length, lifts: false });
}
