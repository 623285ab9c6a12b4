import { type SQL, sql } from "drizzle-orm";
import { asInteger, drizzle, fields, insertFrom, query, returning, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger, ENTRY_KINDS, paymentGrants, type Steps } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { guards } from "../../db/views.ts";
import { amountStepsMax } from "../amounts/amount.ts";
import { type WriteContext, writingValues } from "./account.ts";
import { authorOfWrite } from "./author.ts";
import { heldStepsOfBalance } from "./hold.ts";
import { type EntryKind, inSlices, isBalanceOf, lastEntry, lastLedgerEntry, moving } from "./insert-entries.ts";
import { replacePaymentOwed } from "./owed.ts";

/** Returns the statement that writes an `admin_adjust` entry for each balance that `from` joins. `position` numbers them from 0. */
const insertAdjustments = (
  value: ValueOf<WriteContext & { note: string | null }>,
  { position, delta, isRevoked, kind }: Readonly<Record<"position" | "delta" | "isRevoked" | "kind", SQL>>,
  from: SQL,
): SQL =>
  insertFrom(
    creditLedger,
    {
      accountId: creditBalances.accountId,
      seq: sql`${lastLedgerEntry.seq} + 1 + ${position}`,
      grantSeq: creditBalances.grantSeq,
      deltaSteps: delta,
      balanceAfterSteps: sql`${creditBalances.remainingSteps} + ${delta}`,
      previousSeq: creditBalances.lastSeq,
      kind,
      writtenBy: authorOfWrite(value),
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
    {
      position: sql`0`,
      delta: sql`-${creditBalances.remainingSteps}`,
      isRevoked: sql`1`,
      kind: sql`${ENTRY_KINDS.revoke}`,
    },
    sql`${creditBalances} WHERE ${isBalanceOf(value, sql`${value("balanceId")}`)}`,
  ),
);

/** Writes the entry of a revoke, which takes the remaining amount, even if that is 0. */
export const insertReversal = (reversal: Reversal): Statement =>
  moving(insertReversalSql(reversal), { entries: 1, raises: false });

/** Aborts the batch with `guard_balance` if one of these balances was revoked since the read. */
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
  /** The due amount. If the balance has less, less is taken. */
  readonly dueSteps: Steps;
  /** Whether the whole remaining amount is taken, and the balance revoked. */
  readonly revokes: boolean;
}

/** The kind and the note of the entries. */
type Taken = { kind: Extract<EntryKind, "refund" | "revoke" | "erasure">; note: string | null };

const insertTakingsSql = query(
  (value: ValueOf<WriteContext & { kind: number; note: string | null; takings: string }>) => {
    const remaining = creditBalances.remainingSteps;
    return insertAdjustments(
      value,
      {
        position: sql`taking.key`,
        kind: asInteger(value("kind")),
        isRevoked: sql`(taking.value ->> 'revokes' OR ${creditBalances.revokedAtMs} IS NOT NULL)`,
        delta: sql`-iif(taking.value ->> 'revokes', ${remaining}, min(${remaining}, taking.value ->> 'dueSteps'))`,
      },
      sql`json_each(${value("takings")}) AS taking CROSS JOIN ${creditBalances}
      WHERE ${isBalanceOf(value, sql`taking.value ->> 'balanceId'`)} ORDER BY taking.key`,
    );
  },
);

/** The most takings of one statement. They have less than 400 kB. A D1 value has at most 2 MB. */
const TAKINGS_A_STATEMENT_MAX = 5_000;

/** Writes the entries of a refund, one for each balance, in order. Each entry takes what its balance has at that moment. */
export function insertTakings(writing: WriteContext, takings: readonly Taking[], { kind, note }: Taken): Statement[] {
  return inSlices(takings, TAKINGS_A_STATEMENT_MAX).map((slice) => {
    const insert = insertTakingsSql({
      ...writingValues(writing),
      takings: JSON.stringify(slice),
      note,
      kind: ENTRY_KINDS[kind],
    });
    return moving(insert, { entries: slice.length, raises: false });
  });
}

/** The change that a payment's state requires for a balance that it granted (S4, S6). */
export interface PaymentMotion {
  readonly balanceId: string;
  /** The amount to take back. */
  readonly dueSteps: number;
  /** Whether the whole amount must be taken back. Then the balance is revoked. */
  readonly isWhole: boolean;
  /** Whether more is due than before. */
  readonly isMore: boolean;
}

/** The amount that an entry of `insertPaymentMotions` moved. */
interface MovedRow {
  readonly seq: number;
  readonly deltaSteps: number;
}

type Motions = WriteContext & { motions: string; note: string };

/** The FROM clause: the motions as JSON, each joined with its balance. */
const balancesOfMotions = (value: ValueOf<Motions>) => sql`json_each(${value("motions")}) AS motion
  CROSS JOIN ${creditBalances} ON ${isBalanceOf(value, sql`motion.value ->> 'balanceId'`)}`;
const isWhole = sql`motion.value ->> 'isWhole'`;

// It runs before the entries, so that their triggers know that the payment revokes, and count the amount that the revoke takes.
const markRevoked = query((value: ValueOf<Motions>) =>
  drizzle
    .update(paymentGrants)
    .set({ isRevoked: sql`1` })
    .where(
      sql`${paymentGrants.balanceId} IN (
        SELECT ${creditBalances.id} FROM ${balancesOfMotions(value)}
        WHERE ${creditBalances.revokedAtMs} IS NULL AND ${isWhole}
      )`,
    ),
);

/** Returns SQL for the amount that can be added to a balance: the unit's maximum less the remaining and the held amounts. */
const room = () => sql`${asInteger(
  sql`iif(${creditBalances.unit} = 'cents', ${amountStepsMax.cents}, ${amountStepsMax.tokens})`,
)}
  - ${creditBalances.remainingSteps} - ${heldStepsOfBalance()}`;

const insertMotions = query((value: ValueOf<Motions>) => {
  const { remainingSteps, revokedAtMs } = creditBalances;
  // From a balance that something else revoked, nothing is taken, and nothing is given back to it.
  const isRevokedByOther = sql`(${revokedAtMs} IS NOT NULL AND ${paymentGrants.isRevoked} = 0)`;
  const surplus = sql`(${paymentGrants.takenSteps} - (motion.value ->> 'dueSteps'))`;
  const isTaken = sql`CASE WHEN ${isWhole} THEN 1 WHEN ${isRevokedByOther} OR ${surplus} = 0 THEN motion.value ->> 'isMore' ELSE ${surplus} < 0 END`;
  const insert = insertAdjustments(
    value,
    {
      position: sql`motion.key`,
      kind: sql`iif(${isTaken}, ${ENTRY_KINDS.payment_taken}, ${ENTRY_KINDS.payment_restored})`,
      isRevoked: sql`(${isWhole} OR ${isRevokedByOther})`,
      delta: sql`CASE WHEN ${isWhole} THEN -${remainingSteps} WHEN ${isRevokedByOther} THEN 0
        WHEN ${surplus} > 0 THEN min(${surplus}, ${room()}) ELSE max(${surplus}, -${remainingSteps}) END`,
    },
    sql`${balancesOfMotions(value)}
      CROSS JOIN ${paymentGrants} ON ${paymentGrants.balanceId} = ${creditBalances.id} ORDER BY motion.key`,
  );
  return returning(fields(creditLedger, "seq", "deltaSteps"), (list) => sql`${insert} RETURNING ${list}`);
});

// A trigger has counted the amounts taken from revoked balances.
const markMoved = query((value: ValueOf<Motions>) => {
  const moved = sql`(
    SELECT ${creditLedger.deltaSteps} FROM ${creditBalances} CROSS JOIN ${creditLedger}
    ON ${creditLedger.accountId} = ${creditBalances.accountId} AND ${creditLedger.seq} = ${creditBalances.lastSeq}
    WHERE ${isBalanceOf(value, sql`${paymentGrants.balanceId}`)}
  )`;
  return drizzle
    .update(paymentGrants)
    .set({
      dueSteps: sql`motion.value ->> 'dueSteps'`,
      isRevoked: sql`iif(${isWhole}, ${paymentGrants.isRevoked}, 0)`,
      takenSteps: sql`${paymentGrants.takenSteps} - iif(${isWhole}, 0, ${moved})`,
    })
    .from(sql`json_each(${value("motions")}) AS motion`)
    .where(sql`${paymentGrants.balanceId} = motion.value ->> 'balanceId'`);
});

/** Returns the moved amounts in steps, in the order of the motions, from the rows of a batch. */
export function movedIn(rows: readonly unknown[][]): number[] {
  const isMoved = (row: unknown): row is MovedRow => typeof row === "object" && row !== null && "deltaSteps" in row;
  const moved = rows.flat().filter(isMoved);
  return moved.toSorted((a, b) => a.seq - b.seq).map(({ deltaSteps }) => deltaSteps);
}

/**
 * Takes the due amounts from a payment's balances, or gives them back, with one entry each, in order. Each entry depends on what its
 * balance has, holds and owes at that moment.
 */
export function insertPaymentMotions(
  writing: WriteContext,
  motions: readonly PaymentMotion[],
  note: string,
): Statement[] {
  if (motions.length === 0) return [];
  const rows = motions.map(({ balanceId, dueSteps, isWhole, isMore }) => ({ balanceId, dueSteps, isWhole, isMore }));
  const values = { ...writingValues(writing), motions: JSON.stringify(rows), note };
  const raises = motions.some(({ isMore }) => !isMore);
  return [
    markRevoked(values),
    moving(insertMotions(values), { entries: motions.length, raises }),
    markMoved(values),
    ...replacePaymentOwed(writing, values.motions),
  ];
}
