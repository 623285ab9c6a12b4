import { fragment, type Statement, statement } from "../../db/sql.ts";
import { accountSql, type WriteContext, writingValues } from "./account.ts";

/**
 * What a refund or a payment is owed: it fell short of `steps`, because reservations that were open then held them (C21, S4).
 * Whoever settles such a reservation has its balances pay, by the triggers of the views `owed_settlements` and `owed_payments`.
 */
export interface Owed {
  readonly balanceId: string;
  /** The seq of the entry that fell short. The oldest is paid first. */
  readonly seq: number;
  readonly steps: number;
}

/** SQL: what the balances of a reservation owe that its settlement may pay, as JSON for `readOwed`. */
export const owedOfReservationSql = fragment`(
  SELECT json_group_array(json_array(o.balance_id, o.seq, o.owed_steps) ORDER BY o.seq)
  FROM json_each(reservations.legs) AS leg CROSS JOIN refund_owed AS o
    ON o.account_id = reservations.account_id AND o.balance_id = leg.value ->> 'balanceId' AND o.seq > reservations.made_seq
)`;

export function readOwed(stored: string): readonly Owed[] {
  return (JSON.parse(stored) as [string, number, number][]).map(([balanceId, seq, steps]) => ({
    balanceId,
    seq,
    steps,
  }));
}

/** Plans what holds that are settled one after another pay of what is owed. The holds still open bound it, and never below that. */
export class OwedPlan {
  readonly #paid = new Map<string, number>();

  /** What a balance pays of what it got back, of `owed` in its order. */
  pay(owed: readonly Owed[], balanceId: string, backSteps: number): number {
    let left = Math.max(0, backSteps);
    for (const one of owed) {
      if (one.balanceId !== balanceId) continue;
      const key = `${one.seq} ${balanceId}`;
      const paid = this.#paid.get(key) ?? 0;
      const pays = Math.min(left, one.steps - paid);
      this.#paid.set(key, paid + pays);
      left -= pays;
    }
    return Math.max(0, backSteps) - left;
  }
}

const payOwedSql = statement<{ environmentId: number; reservationId: string }>`
  INSERT INTO owed_settlements (environment_id, reservation_id) VALUES (CAST(:environmentId AS INTEGER), :reservationId)`;

/** Has the balances of a commit's holds pay what they owe. It follows the debits; other settlements do it by themselves. */
export const payOwed = ({ environmentId }: WriteContext, reservationId: string): Statement =>
  payOwedSql({ environmentId, reservationId });

/** SQL: what open reservations hold of each balance of the account. */
const heldSql = fragment`(
    SELECT leg.value ->> 'balanceId' AS balance_id, sum(leg.value ->> 'amountSteps') AS steps
    FROM reservations AS r CROSS JOIN json_each(r.legs) AS leg
    WHERE r.account_id = ${accountSql} AND r.state = 'open' GROUP BY 1
  ) AS held`;

const balanceOf = (name: string): string => fragment`credit_balances AS b
    ON b.id = ${name} ->> 'balanceId' AND +b.account_id = ${accountSql} AND b.revoked_at_ms IS NULL`;

const insertOwedOfRefund = statement<WriteContext & { takings: string }>`
  INSERT INTO refund_owed (account_id, balance_id, seq, owed_steps)
  SELECT b.account_id, b.id, l.seq, min(held.steps, (taking.value ->> 'dueSteps') + l.delta_steps)
  FROM json_each(:takings) AS taking CROSS JOIN ${heldSql} ON held.balance_id = taking.value ->> 'balanceId'
  CROSS JOIN ${balanceOf("taking.value")}
  CROSS JOIN credit_ledger AS l ON l.account_id = b.account_id AND l.seq = b.last_seq
  WHERE (taking.value ->> 'dueSteps') + l.delta_steps > 0`;

/** What a refund fell short of because it was held. It follows the refund's entries. */
export function insertRefundOwed(
  writing: WriteContext,
  takings: readonly { readonly balanceId: string; readonly dueSteps: number }[],
): Statement {
  return insertOwedOfRefund({ ...writingValues(writing), takings: JSON.stringify(takings) });
}

type Motions = WriteContext & { motions: string };

// The plus has SQLite read what the account owes, which is usually nothing.
const deleteOwedOfPayment = statement<Motions>`
  DELETE FROM refund_owed WHERE account_id = ${accountSql} AND +balance_id IN (
    SELECT value ->> 'balanceId' FROM json_each(:motions)
  )`;

const insertOwedOfPayment = statement<Motions>`
  INSERT INTO refund_owed (account_id, balance_id, seq, owed_steps)
  SELECT b.account_id, b.id, b.last_seq, min(held.steps, g.due_steps - g.taken_steps)
  FROM json_each(:motions) AS motion CROSS JOIN ${heldSql} ON held.balance_id = motion.value ->> 'balanceId'
  CROSS JOIN ${balanceOf("motion.value")}
  CROSS JOIN payment_grants AS g ON g.balance_id = b.id
  WHERE g.due_steps > g.taken_steps`;

/** What a payment is owed after its motions: all that is due and not taken, as far as it is held now (S4). They come before. */
export function replacePaymentOwed(writing: WriteContext, motions: string): Statement[] {
  const values = { ...writingValues(writing), motions };
  return [deleteOwedOfPayment(values), insertOwedOfPayment(values)];
}

/** SQL: entries `l` of the account that settlements in the batch wrote, from the first of `:settled` on. */
export const settledEntries = (account: string): string => fragment`credit_ledger AS l
    WHERE l.account_id = ${account} AND l.seq >= (
      SELECT min(settled_seq) FROM reservations
      WHERE environment_id = :environmentId AND id IN (SELECT value FROM json_each(:settled))
    )`;
