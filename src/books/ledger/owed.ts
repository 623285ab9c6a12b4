import { type SQL, sql } from "drizzle-orm";
import { asInteger, drizzle, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger, paymentGrants, refundOwed, reservations } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { guards } from "../../db/views.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";
import { isOpen } from "./hold.ts";
import type { OwedPayment } from "./settle.ts";
import { eachLeg, storedLeg } from "./stored-legs.ts";

type OwedPayments = WriteContext & { payments: string };

/** SQL: the balance of a leg. As an integer, or else SQLite would read all legs again for each balance instead of making an index. */
const balanceOfLeg = asInteger(storedLeg.grantSeq);

/** Returns SQL for the rest of each paid amount, `paid.left_over`: not more than the holds that were open at its refund still have. */
function selectRests(value: ValueOf<OwedPayments>): SQL {
  const { accountId, balanceId, seq, owedMinor } = refundOwed;
  const held = sql`(
    SELECT ${balanceOfLeg} AS balance, ${reservations.createdAtSeq} AS since, ${storedLeg.minor} AS minor
    FROM ${reservations} CROSS JOIN ${eachLeg(reservations.legs)}
    WHERE ${reservations.accountId} = ${accountOfWrite(value)} AND ${isOpen()}
  ) AS held`;
  return sql`(
    SELECT ${accountId} AS account, ${balanceId} AS balance, ${seq} AS place, ${owedMinor} AS before,
      min(${owedMinor} - (payment.value ->> 2), coalesce(sum(held.minor), 0)) AS left_over
    FROM json_each(${value("payments")}) AS payment
    CROSS JOIN ${refundOwed} ON ${accountId} = ${accountOfWrite(value)}
      AND ${balanceId} = payment.value ->> 0 AND ${seq} = payment.value ->> 1
    CROSS JOIN ${creditBalances} ON ${creditBalances.id} = ${balanceId}
    LEFT JOIN ${held} ON held.balance = ${creditBalances.grantSeq} AND held.since < ${seq}
    GROUP BY payment.key
  ) AS paid`;
}

const deletePaid = query((value: ValueOf<OwedPayments>) => {
  const { accountId, balanceId, seq } = refundOwed;
  return drizzle
    .delete(refundOwed)
    .where(
      sql`(${accountId}, ${balanceId}, ${seq}) IN (SELECT account, balance, place FROM ${selectRests(value)} WHERE left_over <= 0)`,
    );
});

const lowerPaid = query((value: ValueOf<OwedPayments>) =>
  drizzle
    .update(refundOwed)
    .set({ owedMinor: sql`paid.left_over` })
    .from(selectRests(value))
    .where(
      sql`${refundOwed.accountId} = paid.account AND ${refundOwed.balanceId} = paid.balance AND ${refundOwed.seq} = paid.place
        AND paid.left_over < paid.before`,
    ),
);

/** Lowers the owed amounts of settled reservations by what their balances paid. Send it after all of these settlements. */
export function lowerOwed(writing: WriteContext, payments: readonly OwedPayment[]): Statement[] {
  if (payments.length === 0) return [];
  const sums = new Map<number, [balanceId: string, seq: number, minor: number]>();
  for (const { balanceId, seq, minor } of payments) sums.set(seq, [balanceId, seq, minor + (sums.get(seq)?.[2] ?? 0)]);
  const values = { ...writingValues(writing), payments: JSON.stringify([...sums.values()]) };
  return [deletePaid(values), lowerPaid(values)];
}

/** Returns SQL for the held amount of each balance of the account: `held.balance`, `held.total`. */
const heldMinor = (value: ValueOf<WriteContext>) => sql`(
    SELECT ${balanceOfLeg} AS balance, sum(${storedLeg.minor}) AS total
    FROM ${reservations} CROSS JOIN ${eachLeg(reservations.legs)}
    WHERE ${reservations.accountId} = ${accountOfWrite(value)} AND ${isOpen()} GROUP BY 1
  ) AS held`;

const insertOwedOfRefund = query((value: ValueOf<WriteContext & { clawbacks: string }>) => {
  const short = sql`(clawback.value ->> 'dueMinor') + ${creditLedger.deltaMinor}`;
  return insertFrom(
    refundOwed,
    {
      accountId: creditBalances.accountId,
      balanceId: creditBalances.id,
      seq: creditLedger.seq,
      owedMinor: sql`min(held.total, ${short})`,
    },
    sql`FROM json_each(${value("clawbacks")}) AS clawback
      CROSS JOIN ${creditBalances} ON ${isUnrevoked(value, sql`clawback.value ->> 'balanceId'`)}
      CROSS JOIN ${heldMinor(value)} ON held.balance = ${creditBalances.grantSeq}
      CROSS JOIN ${creditLedger}
      ON ${creditLedger.accountId} = ${creditBalances.accountId} AND ${creditLedger.seq} = ${creditBalances.lastSeq}
      WHERE ${short} > 0`,
  );
});

/** Returns a condition: a balance has this id, belongs to the account, and is not revoked. Because of the plus, SQLite searches by id. */
const isUnrevoked = (value: ValueOf<WriteContext>, id: SQL) => sql`${creditBalances.id} = ${id}
  AND +${creditBalances.accountId} = ${accountOfWrite(value)} AND ${creditBalances.revokedAtMs} IS NULL`;

/** The most owed amounts of an account (L6). Each settlement reads and writes those of its balances, as one value. */
export const OWED_MAX = 5_000;

/** Aborts the batch with `guard_owed` if the account owes more amounts. Send it after the statements that insert them. */
const guardOwedBounded = query((value: ValueOf<WriteContext>) => {
  const owed = sql`SELECT count(*) FROM ${refundOwed} WHERE ${refundOwed.accountId} = ${accountOfWrite(value)}`;
  // Nothing is counted where the statement before has inserted nothing.
  return insertFrom(guards, { name: sql`'owed'`, holds: sql`iif(changes() = 0, 1, (${owed}) <= ${OWED_MAX})` }, sql``);
});

/** Tells the caller what a batch that failed with `guard_owed` has rejected. */
export const OWED_TOO_MUCH =
  "The user's held credits already owe the maximum number of refunds. Try again when the holds have ended, after at most 24 hours.";

/**
 * Inserts the amounts that a refund could not take because they were held. Send it after the refund's entries. The batch aborts with
 * `guard_owed` if the account would owe too many.
 */
export function insertRefundOwed(
  writing: WriteContext,
  clawbacks: readonly { readonly balanceId: string; readonly dueMinor: number }[],
): Statement[] {
  const values = writingValues(writing);
  return [insertOwedOfRefund({ ...values, clawbacks: JSON.stringify(clawbacks) }), guardOwedBounded(values)];
}

type OwedChanges = WriteContext & { changes: string };

// Because of the plus, SQLite searches by account, which usually owes nothing.
const deleteOwedOfPayment = query((value: ValueOf<OwedChanges>) =>
  drizzle.delete(refundOwed).where(
    sql`${refundOwed.accountId} = ${accountOfWrite(value)} AND +${refundOwed.balanceId} IN (
        SELECT change.value ->> 'balanceId' FROM json_each(${value("changes")}) AS change
      )`,
  ),
);

const insertOwedOfPayment = query((value: ValueOf<OwedChanges>) => {
  const { dueMinor, clawedBackMinor } = paymentGrants;
  return insertFrom(
    refundOwed,
    {
      accountId: creditBalances.accountId,
      balanceId: creditBalances.id,
      seq: creditBalances.lastSeq,
      owedMinor: sql`min(held.total, ${dueMinor} - ${clawedBackMinor})`,
    },
    // Where nothing is held, this reads no balance.
    sql`FROM ${heldMinor(value)}
      CROSS JOIN ${creditBalances} ON ${creditBalances.accountId} = ${accountOfWrite(value)}
        AND ${creditBalances.grantSeq} = held.balance AND ${creditBalances.revokedAtMs} IS NULL
      CROSS JOIN ${paymentGrants} ON ${paymentGrants.balanceId} = ${creditBalances.id}
      WHERE ${dueMinor} > ${clawedBackMinor} AND ${creditBalances.id} IN (
        SELECT change.value ->> 'balanceId' FROM json_each(${value("changes")}) AS change
      )`,
  );
});

/**
 * Replaces a payment's owed amounts after its changes by the amounts that are due, not taken, and held now (S4). The batch aborts
 * with `guard_owed` if the account would owe too many.
 */
export function replacePaymentOwed(writing: WriteContext, changes: string): Statement[] {
  const values = { ...writingValues(writing), changes };
  return [deleteOwedOfPayment(values), insertOwedOfPayment(values), guardOwedBounded(writingValues(writing))];
}

/** Returns a condition: an entry of the account was written at or after the first settlement of `settled`. */
export const isSinceSettled = (
  value: ValueOf<{ settled: string | null }>,
  account: SQL,
): SQL => sql`${creditLedger.accountId} = ${account} AND ${creditLedger.seq} >= (
    SELECT min(${reservations.settledSeq}) FROM ${reservations} WHERE ${reservations.accountId} = ${account}
    AND ${reservations.reservationNumber} IN (SELECT value FROM json_each(${value("settled")}))
  )`;
