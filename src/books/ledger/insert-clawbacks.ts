import { type SQL, sql } from "drizzle-orm";
import { asInteger, drizzle, insertFrom, query, returning, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger, ENTRY_KINDS, type Minor, paymentGrants } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { guards } from "../../db/views.ts";
import { amountMinorMax } from "../amounts/amount.ts";
import { type WriteContext, writingValues } from "./account.ts";
import { authorOfWrite } from "./author.ts";
import { heldMinorOfBalance } from "./hold.ts";
import {
  changingCredits,
  type EntryKind,
  inSlices,
  isBalanceOf,
  lastEntry,
  lastLedgerEntry,
  returningEntries,
  writtenEntryFields,
} from "./insert-entries.ts";
import { replacePaymentOwed } from "./owed.ts";

/**
 * Returns the statement that writes an `admin_adjust` entry for each balance that `from` joins, and returns them. `position` numbers
 * them from 0.
 */
const insertAdjustments = (
  value: ValueOf<WriteContext & { note: string | null }>,
  { position, delta, isRevoked, kind }: Readonly<Record<"position" | "delta" | "isRevoked" | "kind", SQL>>,
  from: SQL,
) => {
  const insert = insertFrom(
    creditLedger,
    {
      accountId: creditBalances.accountId,
      seq: sql`${lastLedgerEntry.seq} + 1 + ${position}`,
      grantSeq: creditBalances.grantSeq,
      deltaMinor: delta,
      balanceAfterMinor: sql`${creditBalances.remainingMinor} + ${delta}`,
      previousSeq: creditBalances.lastSeq,
      kind,
      writtenBy: authorOfWrite(value),
      note: value("note"),
      occurredAtMs: lastLedgerEntry.occurredAtMs,
      isRevoked,
    },
    sql`FROM ${lastEntry(value)}, ${from}`,
  );
  return returning(writtenEntryFields(), (list) => sql`${insert} RETURNING ${list}`);
};

type Reversal = WriteContext & { balanceId: string; note: string | null };
const insertReversalSql = query((value: ValueOf<Reversal>) =>
  insertAdjustments(
    value,
    {
      position: sql`0`,
      delta: sql`-${creditBalances.remainingMinor}`,
      isRevoked: sql`1`,
      kind: sql`${ENTRY_KINDS.revoke}`,
    },
    sql`${creditBalances} WHERE ${isBalanceOf(value, sql`${value("balanceId")}`)}`,
  ),
);

/** Writes the entry of a revoke, which takes the remaining amount, even if that is 0. */
export const insertReversal = (reversal: Reversal): Statement =>
  changingCredits(returningEntries(insertReversalSql(reversal)), { entries: 1, raises: false });

/** Aborts the batch with `guard_balance` if one of these balances was revoked since the read. */
export const guardNoneRevoked = query((value: ValueOf<{ balanceIds: string }>) => {
  const revoked = sql`
    SELECT 1 FROM json_each(${value("balanceIds")}) AS item
    CROSS JOIN ${creditBalances} ON ${creditBalances.id} = item.value
    WHERE ${creditBalances.revokedAtMs} IS NOT NULL`;
  return insertFrom(guards, { name: sql`'balance'`, holds: sql`NOT EXISTS (${revoked})` }, sql``);
});

/** The amount that a refund takes from one balance. */
export interface Clawback {
  readonly balanceId: string;
  /** The due amount. If the balance has less, less is taken. */
  readonly dueMinor: Minor;
  /** Whether the whole remaining amount is taken, and the balance revoked. */
  readonly revokes: boolean;
}

/** The kind and the note of the entries. */
type Taken = { kind: Extract<EntryKind, "refund" | "revoke" | "erasure">; note: string | null };

const insertClawbacksSql = query(
  (value: ValueOf<WriteContext & { kind: number; note: string | null; clawbacks: string }>) => {
    const remaining = creditBalances.remainingMinor;
    return insertAdjustments(
      value,
      {
        position: sql`clawback.key`,
        kind: asInteger(value("kind")),
        isRevoked: sql`(clawback.value ->> 'revokes' OR ${creditBalances.revokedAtMs} IS NOT NULL)`,
        delta: sql`-iif(clawback.value ->> 'revokes', ${remaining}, min(${remaining}, clawback.value ->> 'dueMinor'))`,
      },
      sql`json_each(${value("clawbacks")}) AS clawback CROSS JOIN ${creditBalances}
      WHERE ${isBalanceOf(value, sql`clawback.value ->> 'balanceId'`)} ORDER BY clawback.key`,
    );
  },
);

/** The most clawbacks of one statement. They have less than 400 kB. A D1 value has at most 2 MB. */
const CLAWBACKS_A_STATEMENT_MAX = 5_000;

/** Writes the entries of a refund, one for each balance, in order. Each entry takes what its balance has at that moment. */
export function insertClawbacks(
  writing: WriteContext,
  clawbacks: readonly Clawback[],
  { kind, note }: Taken,
): Statement[] {
  return inSlices(clawbacks, CLAWBACKS_A_STATEMENT_MAX).map((slice) => {
    const insert = insertClawbacksSql({
      ...writingValues(writing),
      clawbacks: JSON.stringify(slice),
      note,
      kind: ENTRY_KINDS[kind],
    });
    return changingCredits(returningEntries(insert), { entries: slice.length, raises: false });
  });
}

/** The change that a payment's state requires for a balance that it granted (S4, S6). */
export interface PaymentBalanceChange {
  readonly balanceId: string;
  /** The amount to take back. */
  readonly dueMinor: number;
  /** Whether the whole amount must be taken back. Then the balance is revoked. */
  readonly isWhole: boolean;
  /** Whether more is due than before. */
  readonly isMore: boolean;
}

type ClawbackValues = WriteContext & { changes: string; note: string };

/** The FROM clause: the changes as JSON, each joined with its balance. */
const balancesOfChanges = (value: ValueOf<ClawbackValues>) => sql`json_each(${value("changes")}) AS change
  CROSS JOIN ${creditBalances} ON ${isBalanceOf(value, sql`change.value ->> 'balanceId'`)}`;
const isWhole = sql`change.value ->> 'isWhole'`;

// It runs before the entries, so that their triggers know that the payment revokes, and count the amount that the revoke takes.
const markRevoked = query((value: ValueOf<ClawbackValues>) =>
  drizzle
    .update(paymentGrants)
    .set({ isRevoked: sql`1` })
    .where(
      sql`${paymentGrants.balanceId} IN (
        SELECT ${creditBalances.id} FROM ${balancesOfChanges(value)}
        WHERE ${creditBalances.revokedAtMs} IS NULL AND ${isWhole}
      )`,
    ),
);

/** Returns SQL for the amount that can be added to a balance: the unit's maximum less the remaining and the held amounts. */
const room = () => sql`${asInteger(
  sql`iif(${creditBalances.unit} = 'cents', ${amountMinorMax.cents}, ${amountMinorMax.tokens})`,
)}
  - ${creditBalances.remainingMinor} - ${heldMinorOfBalance()}`;

const insertChanges = query((value: ValueOf<ClawbackValues>) => {
  const { remainingMinor, revokedAtMs } = creditBalances;
  // From a balance that something else revoked, nothing is taken, and nothing is given back to it.
  const isRevokedByOther = sql`(${revokedAtMs} IS NOT NULL AND ${paymentGrants.isRevoked} = 0)`;
  const surplus = sql`(${paymentGrants.clawedBackMinor} - (change.value ->> 'dueMinor'))`;
  const isTaken = sql`CASE WHEN ${isWhole} THEN 1 WHEN ${isRevokedByOther} OR ${surplus} = 0 THEN change.value ->> 'isMore' ELSE ${surplus} < 0 END`;
  return insertAdjustments(
    value,
    {
      position: sql`change.key`,
      kind: sql`iif(${isTaken}, ${ENTRY_KINDS.payment_taken}, ${ENTRY_KINDS.payment_restored})`,
      isRevoked: sql`(${isWhole} OR ${isRevokedByOther})`,
      delta: sql`CASE WHEN ${isWhole} THEN -${remainingMinor} WHEN ${isRevokedByOther} THEN 0
        WHEN ${surplus} > 0 THEN min(${surplus}, ${room()}) ELSE max(${surplus}, -${remainingMinor}) END`,
    },
    sql`${balancesOfChanges(value)}
      CROSS JOIN ${paymentGrants} ON ${paymentGrants.balanceId} = ${creditBalances.id} ORDER BY change.key`,
  );
});

// A trigger has counted the amounts taken from revoked balances.
const markMoved = query((value: ValueOf<ClawbackValues>) => {
  const moved = sql`(
    SELECT ${creditLedger.deltaMinor} FROM ${creditBalances} CROSS JOIN ${creditLedger}
    ON ${creditLedger.accountId} = ${creditBalances.accountId} AND ${creditLedger.seq} = ${creditBalances.lastSeq}
    WHERE ${isBalanceOf(value, sql`${paymentGrants.balanceId}`)}
  )`;
  return drizzle
    .update(paymentGrants)
    .set({
      dueMinor: sql`change.value ->> 'dueMinor'`,
      isRevoked: sql`iif(${isWhole}, ${paymentGrants.isRevoked}, 0)`,
      clawedBackMinor: sql`${paymentGrants.clawedBackMinor} - iif(${isWhole}, 0, ${moved})`,
    })
    .from(sql`json_each(${value("changes")}) AS change`)
    .where(sql`${paymentGrants.balanceId} = change.value ->> 'balanceId'`);
});

/**
 * Takes the due amounts from a payment's balances, or gives them back, with one entry each, in order. Each entry depends on what its
 * balance has, holds and owes at that moment.
 */
export function insertPaymentBalanceChanges(
  writing: WriteContext,
  changes: readonly PaymentBalanceChange[],
  note: string,
): Statement[] {
  if (changes.length === 0) return [];
  const rows = changes.map(({ balanceId, dueMinor, isWhole, isMore }) => ({ balanceId, dueMinor, isWhole, isMore }));
  const values = { ...writingValues(writing), changes: JSON.stringify(rows), note };
  const raises = changes.some(({ isMore }) => !isMore);
  return [
    markRevoked(values),
    changingCredits(returningEntries(insertChanges(values)), { entries: changes.length, raises }),
    markMoved(values),
    ...replacePaymentOwed(writing, values.changes),
  ];
}
