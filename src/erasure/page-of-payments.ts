import { and, eq, inArray, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { assignments, boundLimit, drizzle, fields, query, type ValueOf } from "../db/query.ts";
import {
  creditBalances,
  creditLedger,
  payerUsers,
  paymentEvents,
  paymentFacts,
  paymentGrants,
  payments,
  stripeCustomers,
  stripeLog,
  stripePayers,
  usageCounters,
  usageLimits,
} from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import { type ErasureSecret, hashCustomer } from "../db/tombstones.ts";
import type { TenantCtx } from "../runtime.ts";
import { erasedLedgerPage } from "./page-of-books.ts";
import { id, idsWithOpenAccounts, isOfErasedEnvironment, type OfPage, ofRow, rowsMax, rowsOfIds } from "./page-rows.ts";

/** The ledger entry `r` is the grant of the balance. */
const isGranted =
  () => sql`${creditBalances.accountId} = ${ofRow(creditLedger.accountId)} AND ${creditBalances.grantSeq} = ${ofRow(creditLedger.seq)}
  AND ${ofRow(creditLedger.reason)} = 'grant'`;
/** The balances whose grants are in the page. */
const grantedInPage = (value: OfPage) =>
  sql`(SELECT ${creditBalances.id} FROM ${erasedLedgerPage(value)} CROSS JOIN ${creditBalances} WHERE ${isGranted()})`;

/** The payments of the person: those with data that names the person, and those whose grants are in the page. */
const erasedPaymentPage = (value: OfPage) => sql`(
  SELECT * FROM (
    SELECT ${ofRow(paymentFacts.paymentId)} FROM ${rowsOfIds(value, paymentFacts, paymentFacts.userId)} LIMIT ${rowsMax(value)}
  ) UNION
  SELECT ${paymentGrants.paymentId} FROM ${erasedLedgerPage(value)} CROSS JOIN ${creditBalances} CROSS JOIN ${paymentGrants}
  WHERE ${isGranted()} AND ${paymentGrants.balanceId} = ${creditBalances.id}
)`;
// The reason is kept, so that a repeated event, or an event that read the payment earlier, does not restore the customer.
const erasedColumns = () => ({
  customer: sql`NULL`,
  settledBy: sql`iif(${payments.settledBy} IS NULL, NULL, '')`,
  version: sql`${payments.version} + 1`,
  reason: sql`iif(${payments.status} = 'unmatched', 'person_erased', ${payments.reason})`,
});
const erasePayments = query((value: OfPage) =>
  drizzle
    .update(payments)
    .set(erasedColumns())
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
const requestedData = () => sql`json_set(${paymentFacts.data}, '$.pack', NULL, '$.quantity', NULL)`;
const eraseFacts = query((value: OfPage) =>
  drizzle
    .update(paymentFacts)
    .set({
      userId: null,
      data: sql`iif(${paymentFacts.data} ->> '$.pack' IS NULL, ${paymentFacts.data}, ${requestedData()})`,
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
    .set({ requestedPack: null, requestedUser: null })
    .where(
      and(
        isOfErasedEnvironment(value, stripeLog),
        sql`${stripeLog.eventId} IN (
          SELECT * FROM (
            SELECT ${ofRow(stripeLog.eventId)} FROM ${rowsOfIds(value, stripeLog, stripeLog.requestedUser)}
            LIMIT ${rowsMax(value)}
          ) UNION
          SELECT ${paymentEvents.eventId} FROM ${paymentEvents}
          WHERE ${isOfErasedEnvironment(value, paymentEvents)} AND ${paymentEvents.paymentId} IN ${erasedPaymentPage(value)}
        )`,
      ),
    ),
);
/** Deletes a user's overrides of limits. Counted usage stays under the pseudonym (E2). */
const endOverrides = query((value: OfPage) => {
  const { environmentId, limitId, accountId, hasOverride } = usageCounters;
  const ofAccounts = sql`
    SELECT ${usageLimits.environmentId}, ${usageLimits.id}, ${id.accountId} FROM ${idsWithOpenAccounts(value)} CROSS JOIN ${usageLimits}
    WHERE ${isOfErasedEnvironment(value, usageLimits)}`;
  return drizzle
    .update(usageCounters)
    .set({ hasOverride: false, overrideMinor: null })
    .where(sql`(${environmentId}, ${limitId}, ${accountId}) IN (${ofAccounts}) AND ${hasOverride} = 1`);
});
/** Removes the customer from payments that granted nothing, whose customer is the user. */
export const erasePaymentCustomers = query(
  (value: OfPage) => sql`
  UPDATE ${payments} INDEXED BY payments_customer SET ${assignments(payments, erasedColumns())}
  WHERE ${isOfErasedEnvironment(value, payments)} AND ${payments.customer} IN (
    SELECT ${ofRow(stripeCustomers.customer)} FROM ${rowsOfIds(value, stripeCustomers, stripeCustomers.userId)}
  )`,
);

type Customers = { environmentId: number; rows: string };
const customersOfIds = (value: OfPage) => sql`
  SELECT ${ofRow(payerUsers.customer)} AS payer FROM ${rowsOfIds(value, payerUsers, payerUsers.userId)}
  UNION SELECT ${ofRow(stripeCustomers.customer)} FROM ${rowsOfIds(value, stripeCustomers, stripeCustomers.userId)}`;
/** Selects the Stripe customers of a page's ids that are not hashed yet. */
export const selectErasedPayers = query((value: OfPage) =>
  drizzle
    .select(fields(stripePayers, "customer"))
    .from(sql`(${customersOfIds(value)}) AS found`)
    .crossJoin(stripePayers)
    .where(
      and(
        eq(stripePayers.environmentId, value("environmentId")),
        sql`${stripePayers.customer} = found.payer AND ${stripePayers.customer} NOT GLOB '#*'`,
      ),
    )
    .limit(boundLimit(value("rows"))),
);

/** Returns SQL for the hash of a customer in `rows`, a JSON list of [customer, hash]. */
const hashOfCustomer = (value: ValueOf<Customers>, customer: SQLiteColumn) =>
  sql`(SELECT item.value ->> 1 FROM json_each(${value("rows")}) AS item WHERE item.value ->> 0 = ${customer})`;
const isAmong = (value: ValueOf<Customers>, table: typeof stripePayers | typeof payerUsers) =>
  sql`${table.environmentId} = ${value("environmentId")}
    AND ${table.customer} IN (SELECT item.value ->> 0 FROM json_each(${value("rows")}) AS item)`;
const hashPayer = query((value: ValueOf<Customers>) =>
  drizzle
    .update(stripePayers)
    .set({ customer: hashOfCustomer(value, stripePayers.customer) })
    .where(isAmong(value, stripePayers)),
);
// Other users whom the customer's invoices named keep its carry in their list.
const hashPayerUsers = query(
  (value: ValueOf<Customers>) => sql`
  UPDATE OR REPLACE ${payerUsers} INDEXED BY payer_users_customer
  SET ${assignments(payerUsers, { customer: hashOfCustomer(value, payerUsers.customer) })} WHERE ${isAmong(value, payerUsers)}`,
);

/** Returns the statements that keep the carries of Stripe customers under keyed hashes (S6). */
export async function hashPayers(
  { environment }: TenantCtx,
  secret: ErasureSecret,
  payers: readonly { readonly customer: string }[],
): Promise<Statement[]> {
  const hashes = payers.map(async ({ customer }) => [customer, await hashCustomer(secret, environment, customer)]);
  const values = { environmentId: environment.id, rows: JSON.stringify(await Promise.all(hashes)) };
  return [hashPayer(values), hashPayerUsers(values)];
}

/** The statements that erase the payments of a page's ids, in order. They run while the books of the ids are not finished. */
export const paymentsOfPage = [erasePayments, eraseGrants, eraseLog, eraseFacts, endOverrides];
