import { fragment, type Statement, statement } from "../../db/sql.ts";
import { amountStepsMax, type Unit } from "../amounts/amount.ts";
import { accountSql, type WriteContext, writingValues } from "./account.ts";
import { insertAdjustmentsSql, lastEntry } from "./insert-entries.ts";
import { moving } from "./motion.ts";
import { replacePaymentOwed } from "./owed.ts";

/** What the state of a payment asks of a balance that it granted (S4, S6). */
export interface PaymentMotion {
  readonly balanceId: string;
  /** What is due back. */
  readonly dueSteps: number;
  /** Whether all is due. Then whatever remains is taken, and the balance is revoked. */
  readonly isWhole: boolean;
  /** Whether more is due than before. */
  readonly isMore: boolean;
}

/** What an entry of `insertPaymentMotions` moved. */
export interface MovedRow {
  readonly unit: Unit;
  readonly deltaSteps: number;
}

type Motions = WriteContext & { motions: string; note: string };
const motion = fragment`json_each(:motions) AS motion`;
const isWhole = fragment`motion.value ->> 'isWhole'`;

// Before its entry, so that the triggers know who revokes, and what is taken with it counts.
const markRevoked = statement<Motions>`
  UPDATE payment_grants SET is_revoked = 1 WHERE balance_id IN (
    SELECT b.id FROM ${motion} CROSS JOIN credit_balances AS b
    WHERE b.account_id = ${accountSql} AND b.id = motion.value ->> 'balanceId' AND b.revoked_at_ms IS NULL AND ${isWhole}
  )`;

/** What the unit has room for, beside what remains and what open reservations hold. */
const room = fragment`iif(b.unit = 'cents', ${String(amountStepsMax.cents)}, ${String(amountStepsMax.tokens)})
          - b.remaining_steps - coalesce((
            SELECT sum(leg.value ->> 'amountSteps') FROM reservations AS r, json_each(r.legs) AS leg
            WHERE r.account_id = b.account_id AND r.state = 'open' AND leg.value ->> 'balanceId' = b.id
          ), 0)`;
const surplus = fragment`(g.taken_steps - (motion.value ->> 'dueSteps'))`;

// What somebody else revoked has nothing to give, and gets nothing back.
const insertMotions = statement<Motions, MovedRow>`
  ${insertAdjustmentsSql(fragment`last.seq + 1 + motion.key AS seq, last.now_ms,
      ${isWhole} OR (b.revoked_at_ms IS NOT NULL AND g.is_revoked = 0) AS is_revoked,
      CASE WHEN ${isWhole} THEN -b.remaining_steps WHEN b.revoked_at_ms IS NOT NULL AND g.is_revoked = 0 THEN 0
        WHEN ${surplus} > 0 THEN min(${surplus}, ${room}) ELSE max(${surplus}, -b.remaining_steps) END AS delta
    FROM ${lastEntry} AS last, ${motion}
    CROSS JOIN credit_balances AS b CROSS JOIN payment_grants AS g ON g.balance_id = b.id
    WHERE b.account_id = ${accountSql} AND b.id = motion.value ->> 'balanceId'`)} ORDER BY seq
  RETURNING unit, delta_steps AS deltaSteps`;

// A trigger has counted what was taken of revoked balances.
const markMoved = statement<Motions>`
  UPDATE payment_grants SET due_steps = motion.value ->> 'dueSteps', is_revoked = iif(${isWhole}, is_revoked, 0),
    taken_steps = taken_steps - iif(${isWhole}, 0, (
      SELECT l.delta_steps FROM credit_balances AS b
      CROSS JOIN credit_ledger AS l ON l.account_id = b.account_id AND l.seq = b.last_seq
      WHERE b.account_id = ${accountSql} AND b.id = payment_grants.balance_id
    ))
  FROM ${motion} WHERE payment_grants.balance_id = motion.value ->> 'balanceId'`;

/** What the motions among a batch's rows moved. */
export function movedIn(rows: readonly unknown[][]): MovedRow[] {
  return rows.flat().filter((row): row is MovedRow => typeof row === "object" && row !== null && "deltaSteps" in row);
}

/** Brings the balances of a payment to what is due of them: one entry each, in their order. What is there, and what is owed, is judged here. */
export function insertPaymentMotions(
  writing: WriteContext,
  motions: readonly PaymentMotion[],
  note: string,
): Statement[] {
  if (motions.length === 0) return [];
  const rows = motions.map(({ balanceId, dueSteps, isWhole }) => ({ balanceId, dueSteps, isWhole }));
  const values = { ...writingValues(writing), motions: JSON.stringify(rows), note };
  const lifts = motions.some(({ isMore }) => !isMore);
  return [
    markRevoked(values),
    moving(insertMotions(values), { entries: motions.length, lifts }),
    markMoved(values),
    ...replacePaymentOwed(writing, values.motions),
  ];
}
