import { type SQL, sql } from "drizzle-orm";
import { drizzle, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger, paymentGrants, refundOwed, reservations } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";
import { isOpen } from "./hold.ts";
import type { OwedPayment } from "./settle.ts";

type OwedPayments = WriteContext & { payments: string };

/** Returns SQL for the rest of an owed amount: not more than the holds that were open at its refund still have. */
function restOf(value: ValueOf<OwedPayments>): { readonly rest: SQL; readonly isPaid: SQL } {
  const { accountId, balanceId, seq, owedSteps } = refundOwed;
  const isOf = sql`payment.value ->> 'balanceId' = ${balanceId} AND payment.value ->> 'seq' = ${seq}`;
  const list = sql`json_each(${value("payments")}) AS payment WHERE ${isOf}`;
  const held = sql`coalesce((
    SELECT sum(leg.value ->> 'amountSteps') FROM ${reservations} CROSS JOIN json_each(${reservations.legs}) AS leg
    WHERE ${reservations.accountId} = ${accountId} AND ${isOpen()} AND ${reservations.madeSeq} < ${seq}
      AND leg.value ->> 'balanceId' = ${balanceId}
  ), 0)`;
  return {
    rest: sql`min(${owedSteps} - (SELECT sum(payment.value ->> 'steps') FROM ${list}), ${held})`,
    isPaid: sql`${accountId} = ${accountOfWrite(value)} AND EXISTS (SELECT 1 FROM ${list})`,
  };
}

const deletePaid = query((value: ValueOf<OwedPayments>) => {
  const { rest, isPaid } = restOf(value);
  return drizzle.delete(refundOwed).where(sql`${isPaid} AND ${rest} <= 0`);
});

const lowerPaid = query((value: ValueOf<OwedPayments>) => {
  const { rest, isPaid } = restOf(value);
  return drizzle
    .update(refundOwed)
    .set({ owedSteps: rest })
    .where(sql`${isPaid} AND ${refundOwed.owedSteps} > ${rest}`);
});

/** Lowers the owed amounts of settled reservations by what their balances paid. Send it after all of these settlements. */
export function lowerOwed(writing: WriteContext, payments: readonly OwedPayment[]): Statement[] {
  if (payments.length === 0) return [];
  const values = { ...writingValues(writing), payments: JSON.stringify(payments) };
  return [deletePaid(values), lowerPaid(values)];
}

/** Returns SQL for the held amount of each balance of the account: `held.balance`, `held.total`. */
const heldSteps = (value: ValueOf<WriteContext>) => sql`(
    SELECT leg.value ->> 'balanceId' AS balance, sum(leg.value ->> 'amountSteps') AS total
    FROM ${reservations} CROSS JOIN json_each(${reservations.legs}) AS leg
    WHERE ${reservations.accountId} = ${accountOfWrite(value)} AND ${isOpen()} GROUP BY 1
  ) AS held`;

const insertOwedOfRefund = query((value: ValueOf<WriteContext & { takings: string }>) => {
  const short = sql`(taking.value ->> 'dueSteps') + ${creditLedger.deltaSteps}`;
  return insertFrom(
    refundOwed,
    {
      accountId: creditBalances.accountId,
      balanceId: creditBalances.id,
      seq: creditLedger.seq,
      owedSteps: sql`min(held.total, ${short})`,
    },
    sql`FROM json_each(${value("takings")}) AS taking
      CROSS JOIN ${heldSteps(value)} ON held.balance = taking.value ->> 'balanceId'
      CROSS JOIN ${creditBalances} ON ${isUnrevoked(value, sql`taking.value ->> 'balanceId'`)}
      CROSS JOIN ${creditLedger}
      ON ${creditLedger.accountId} = ${creditBalances.accountId} AND ${creditLedger.seq} = ${creditBalances.lastSeq}
      WHERE ${short} > 0`,
  );
});

/** Returns a condition: a balance has this id, belongs to the account, and is not revoked. Because of the plus, SQLite searches by id. */
const isUnrevoked = (value: ValueOf<WriteContext>, id: SQL) => sql`${creditBalances.id} = ${id}
  AND +${creditBalances.accountId} = ${accountOfWrite(value)} AND ${creditBalances.revokedAtMs} IS NULL`;

/** Inserts the amounts that a refund could not take because they were held. Send it after the refund's entries. */
export function insertRefundOwed(
  writing: WriteContext,
  takings: readonly { readonly balanceId: string; readonly dueSteps: number }[],
): Statement {
  return insertOwedOfRefund({ ...writingValues(writing), takings: JSON.stringify(takings) });
}

type OwedMotions = WriteContext & { motions: string };

// Because of the plus, SQLite searches by account, which usually owes nothing.
const deleteOwedOfPayment = query((value: ValueOf<OwedMotions>) =>
  drizzle.delete(refundOwed).where(
    sql`${refundOwed.accountId} = ${accountOfWrite(value)} AND +${refundOwed.balanceId} IN (
        SELECT motion.value ->> 'balanceId' FROM json_each(${value("motions")}) AS motion
      )`,
  ),
);

const insertOwedOfPayment = query((value: ValueOf<OwedMotions>) => {
  const { dueSteps, takenSteps } = paymentGrants;
  return insertFrom(
    refundOwed,
    {
      accountId: creditBalances.accountId,
      balanceId: creditBalances.id,
      seq: creditBalances.lastSeq,
      owedSteps: sql`min(held.total, ${dueSteps} - ${takenSteps})`,
    },
    sql`FROM json_each(${value("motions")}) AS motion
      CROSS JOIN ${heldSteps(value)} ON held.balance = motion.value ->> 'balanceId'
      CROSS JOIN ${creditBalances} ON ${isUnrevoked(value, sql`motion.value ->> 'balanceId'`)}
      CROSS JOIN ${paymentGrants} ON ${paymentGrants.balanceId} = ${creditBalances.id}
      WHERE ${dueSteps} > ${takenSteps}`,
  );
});

/** Replaces a payment's owed amounts after its motions by the amounts that are due, not taken, and held now (S4). */
export function replacePaymentOwed(writing: WriteContext, motions: string): Statement[] {
  const values = { ...writingValues(writing), motions };
  return [deleteOwedOfPayment(values), insertOwedOfPayment(values)];
}

/** Returns a condition: an entry of the account was written at or after the first settlement of `settled`. */
export const isSinceSettled = (
  value: ValueOf<{ environmentId: number; settled: string | null }>,
  account: SQL,
): SQL => sql`${creditLedger.accountId} = ${account} AND ${creditLedger.seq} >= (
    SELECT min(${reservations.settledSeq}) FROM ${reservations} WHERE ${reservations.environmentId} = ${value("environmentId")}
    AND ${reservations.id} IN (SELECT value FROM json_each(${value("settled")}))
  )`;
