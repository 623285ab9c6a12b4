import { and, eq, inArray, sql } from "drizzle-orm";
import { assignments, drizzle, query } from "../db/query.ts";
import {
  creditLedger,
  paymentDebts,
  paymentEvents,
  paymentFacts,
  paymentGrants,
  payments,
  stripeCustomers,
  stripeLog,
  usageCounters,
  usageLimits,
} from "../db/schema.ts";
import { erasedLedgerPage } from "./page-of-books.ts";
import {
  accountsWithOpenBooks,
  id,
  idsWithOpenBooks,
  isOfErasedEnvironment,
  type OfPage,
  ofRow,
  rowsMax,
  rowsOfIds,
} from "./page-rows.ts";

/** The balances whose grants are in the page. */
const grantedInPage = (value: OfPage) =>
  sql`(SELECT ${ofRow(creditLedger.balanceId)} FROM ${erasedLedgerPage(value)} WHERE ${ofRow(creditLedger.reason)} = 'grant')`;

/** The payments of the person: those with data that names the person, and those whose grants are in the page. */
const erasedPaymentPage = (value: OfPage) => sql`(
  SELECT * FROM (
    SELECT ${ofRow(paymentFacts.paymentId)} FROM ${rowsOfIds(value, paymentFacts, paymentFacts.userId)} LIMIT ${rowsMax(value)}
  ) UNION
  SELECT ${paymentGrants.paymentId} FROM ${erasedLedgerPage(value)} CROSS JOIN ${paymentGrants}
  WHERE ${ofRow(creditLedger.reason)} = 'grant' AND ${paymentGrants.balanceId} = ${ofRow(creditLedger.balanceId)}
)`;
// The reason is kept, so that a repeated event, or an event that read the payment earlier, does not restore the customer.
const erasedColumns = {
  customer: sql`NULL`,
  settledBy: sql`iif(${payments.settledBy} IS NULL, NULL, '')`,
  version: sql`${payments.version} + 1`,
  reason: sql`iif(${payments.status} = 'unmatched', 'person_erased', NULL)`,
};
const erasePayments = query((value: OfPage) =>
  drizzle
    .update(payments)
    .set(erasedColumns)
    .where(and(isOfErasedEnvironment(value, payments), inArray(payments.id, erasedPaymentPage(value)))),
);
/** Prevents payments from restoring credits that an erasure revoked (S4). */
const eraseGrants = query((value: OfPage) =>
  drizzle
    .update(paymentGrants)
    .set({ isRevoked: 0 })
    .where(and(eq(paymentGrants.isRevoked, 1), inArray(paymentGrants.balanceId, grantedInPage(value)))),
);
/** The texts that a caller chose in a session's or an intent's metadata. The other data are Stripe's ids, and numbers. */
const askedData = sql`json_set(${paymentFacts.data}, '$.pack', NULL, '$.quantity', NULL)`;
const eraseFacts = query((value: OfPage) =>
  drizzle
    .update(paymentFacts)
    .set({
      userId: null,
      data: sql`iif(${paymentFacts.data} ->> '$.pack' IS NULL, ${paymentFacts.data}, ${askedData})`,
    })
    .where(
      and(
        isOfErasedEnvironment(value, paymentFacts),
        sql`(${paymentFacts.userId} IS NOT NULL OR ${paymentFacts.data} ->> '$.pack' IS NOT NULL)
          AND ${paymentFacts.paymentId} IN ${erasedPaymentPage(value)}`,
      ),
    ),
);
/** Removes the requested pack and user from the log of Stripe's events. The events and their outcomes stay. */
const eraseLog = query((value: OfPage) =>
  drizzle
    .update(stripeLog)
    .set({ askedPack: null, askedUser: null })
    .where(
      and(
        isOfErasedEnvironment(value, stripeLog),
        sql`${stripeLog.eventId} IN (
          SELECT * FROM (
            SELECT ${ofRow(stripeLog.eventId)} FROM ${rowsOfIds(value, stripeLog, stripeLog.askedUser)}
            LIMIT ${rowsMax(value)}
          ) UNION
          SELECT ${paymentEvents.eventId} FROM ${erasedPaymentPage(value)} AS erased CROSS JOIN ${paymentEvents}
          WHERE ${isOfErasedEnvironment(value, paymentEvents)} AND ${paymentEvents.paymentId} = erased.payment_id
        )`,
      ),
    ),
);
/** Ends the user's debts (S6). */
const endDebts = query(
  (value: OfPage) => sql`
  UPDATE ${paymentDebts} INDEXED BY payment_debts_of
  SET ${assignments(paymentDebts, { customer: sql`NULL`, amount: sql`0` })}
  WHERE ${isOfErasedEnvironment(value, paymentDebts)} AND ${paymentDebts.customer} IS NOT NULL
    AND ${paymentDebts.accountId} IN ${accountsWithOpenBooks(value)}`,
);
/** Deletes a user's own amounts of limits. Counted usage stays under the pseudonym (E2). */
const endOwnAmounts = query((value: OfPage) => {
  const { environmentId, limitId, accountId, hasOwnAmount } = usageCounters;
  const ofAccounts = sql`
    SELECT ${usageLimits.environmentId}, ${usageLimits.id}, ${id.accountId} FROM ${idsWithOpenBooks(value)} CROSS JOIN ${usageLimits}
    WHERE ${isOfErasedEnvironment(value, usageLimits)}`;
  return drizzle
    .update(usageCounters)
    .set({ hasOwnAmount: false, ownAmountSteps: null })
    .where(sql`(${environmentId}, ${limitId}, ${accountId}) IN (${ofAccounts}) AND ${hasOwnAmount} = 1`);
});
/** Removes the customer from payments that are unmatched because nobody has assigned their customer to a user. */
export const erasePaymentCustomers = query(
  (value: OfPage) => sql`
  UPDATE ${payments} INDEXED BY payments_customer SET ${assignments(payments, erasedColumns)}
  WHERE ${isOfErasedEnvironment(value, payments)} AND ${payments.status} = 'unmatched' AND ${payments.customer} IN (
    SELECT ${ofRow(stripeCustomers.customer)} FROM ${rowsOfIds(value, stripeCustomers, stripeCustomers.userId)}
  )`,
);

/** The statements that erase the payments of a page's ids, in order. They run while the books of the ids are not finished. */
export const paymentsOfPage = [erasePayments, eraseGrants, eraseLog, eraseFacts, endDebts, endOwnAmounts];
