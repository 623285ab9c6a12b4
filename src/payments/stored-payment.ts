import { and, eq, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { Unit } from "../books/amounts/amount.ts";
import { accountQuery } from "../books/ledger/account.ts";
import { computed, drizzle, fields, query, type RowOf, type ValueOf } from "../db/query.ts";
import {
  accounts,
  creditBalances,
  type Minor,
  paymentEvents,
  paymentFacts,
  paymentGrants,
  paymentNames,
  payments,
  stripeCustomers,
} from "../db/schema.ts";
import type { Fact } from "./facts.ts";
import type { PaymentOutcome } from "./outcomes.ts";
import type { StatusReason } from "./reasons.ts";

/** A balance that a payment granted. */
export interface StoredGrant {
  readonly balanceId: string;
  readonly accountId: number;
  readonly userId: string;
  readonly packId: string;
  readonly packItemId: string;
  readonly unit: Unit;
  readonly initialMinor: Minor;
  readonly remainingMinor: Minor;
  readonly expiresAtMs: number;
  readonly grantedAtMs: number;
  readonly grantSeq: number;
  /** The amount that is due back, as of the last change. */
  readonly dueMinor: Minor;
  readonly clawedBackMinor: Minor;
  /** The amount that revokes, adjustments and erasures took. */
  readonly operatorSteps: number;
  readonly isSurplus: 0 | 1;
  /** Whether something other than its payment revoked it. Then nothing is given back to it. */
  readonly isClosed: 0 | 1;
  readonly isErased: 0 | 1;
}

/** Returns a condition: a row of a table belongs to the payment. */
const ofPayment = ({ environmentId, paymentId }: { environmentId: SQLiteColumn; paymentId: SQLiteColumn }) =>
  sql`${environmentId} = ${payments.environmentId} AND ${paymentId} = ${payments.id}`;

const grantsJson = sql<string>`(
  SELECT json_group_array(json_patch(json_object('balanceId', ${paymentGrants.balanceId},
    'accountId', ${paymentGrants.accountId}, 'dueMinor', ${paymentGrants.dueMinor},
    'clawedBackMinor', ${paymentGrants.clawedBackMinor}, 'operatorSteps', ${paymentGrants.operatorSteps},
    'isSurplus', ${paymentGrants.isSurplus},
    'isClosed', ${creditBalances.revokedAtMs} IS NOT NULL AND ${paymentGrants.isRevoked} = 0, 'isErased', ${accounts.isErased}),
    json_object('userId', ${accounts.userId}, 'packId', ${creditBalances.packId}, 'packItemId', ${creditBalances.packItemId},
    'unit', ${creditBalances.unit}, 'initialMinor', ${creditBalances.initialMinor},
    'remainingMinor', ${creditBalances.remainingMinor}, 'expiresAtMs', ${creditBalances.expiresAtMs},
    'grantedAtMs', ${creditBalances.grantedAtMs}, 'grantSeq', ${creditBalances.grantSeq})))
  FROM ${paymentGrants}
  CROSS JOIN ${creditBalances} ON ${creditBalances.accountId} = ${paymentGrants.accountId}
  AND ${creditBalances.id} = ${paymentGrants.balanceId}
  CROSS JOIN ${accounts} ON ${accounts.id} = ${paymentGrants.accountId}
  WHERE ${ofPayment(paymentGrants)}
)`;

const paymentFields = {
  ...fields(
    payments,
    "id",
    "status",
    "reason",
    "customer",
    "settledBy",
    "notifyAtMs",
    "version",
    "writtenBy",
    "createdAtMs",
  ),
  ...computed({
    namesJson: sql<string>`(SELECT json_group_array(${paymentNames.name}) FROM ${paymentNames} WHERE ${ofPayment(paymentNames)})`,
    factsJson: sql<string>`(
      SELECT json_group_array(json_object('kind', ${paymentFacts.kind}, 'id', ${paymentFacts.id}, 'at', ${paymentFacts.atSeconds},
        'userId', ${paymentFacts.userId}, 'data', json(${paymentFacts.data})))
      FROM ${paymentFacts} WHERE ${ofPayment(paymentFacts)}
    )`,
    grantsJson,
    /** The user of the payment's customer. */
    customerUser: sql<string | null>`(
      SELECT ${stripeCustomers.userId} FROM ${stripeCustomers}
      WHERE ${stripeCustomers.environmentId} = ${payments.environmentId} AND ${stripeCustomers.customer} = ${payments.customer}
    )`,
  }),
};
type StoredPaymentRow = RowOf<typeof paymentFields>;

/** The fields of a payment with its events. */
export const shownFields = {
  ...paymentFields,
  ...computed({
    eventsJson: sql<string>`(
      SELECT json_group_array(json_object('eventId', ${paymentEvents.eventId}, 'type', ${paymentEvents.type},
        'at', ${paymentEvents.atSeconds}, 'outcome', ${paymentEvents.outcome}))
      FROM ${paymentEvents} WHERE ${ofPayment(paymentEvents)}
    )`,
  }),
};

export interface StoredPaymentEvent {
  readonly eventId: string;
  readonly type: string;
  readonly at: number;
  readonly outcome: PaymentOutcome;
}

export interface StoredPayment extends Omit<StoredPaymentRow, "namesJson" | "factsJson" | "grantsJson" | "reason"> {
  readonly reason: StatusReason | null;
  readonly names: readonly string[];
  readonly facts: readonly Fact[];
  readonly grants: readonly StoredGrant[];
}

type NamedPayments = { environmentId: number; names: string };
const hasSomeOf = (
  value: ValueOf<NamedPayments>,
) => sql`${payments.environmentId} = ${value("environmentId")} AND ${payments.id} IN (
  SELECT ${paymentNames.paymentId} FROM ${paymentNames} WHERE ${paymentNames.environmentId} = ${value("environmentId")}
  AND ${paymentNames.name} IN (SELECT value FROM json_each(${value("names")}))
)`;

/** Selects the payments with some of these names. */
export const selectPayments = query((value: ValueOf<NamedPayments>) =>
  drizzle.select(paymentFields).from(payments).where(hasSomeOf(value)),
);
/** Selects the payments with some of these names, with their events. */
export const selectShownPayment = query((value: ValueOf<NamedPayments>) =>
  drizzle.select(shownFields).from(payments).where(hasSomeOf(value)),
);

type OfCustomer = { environmentId: number; customer: string };

/** Selects one name of each payment of a customer that is unmatched because its user is unknown. */
export const selectUnmatchedOf = query((value: ValueOf<OfCustomer>) =>
  drizzle
    .select(
      computed({
        name: sql<string>`(SELECT ${paymentNames.name} FROM ${paymentNames} WHERE ${ofPayment(paymentNames)} LIMIT 1)`,
      }),
    )
    .from(sql`${payments} INDEXED BY payments_customer`)
    .where(
      and(
        eq(payments.environmentId, value("environmentId")),
        eq(payments.customer, value("customer")),
        eq(payments.status, "unmatched"),
        eq(payments.reason, "no_user"),
      ),
    )
    // In the order in which Stripe created the invoices (S6).
    .orderBy(
      sql`(
        SELECT min(${paymentFacts.data} ->> 'created') FROM ${paymentFacts}
        WHERE ${ofPayment(paymentFacts)} AND ${paymentFacts.kind} = 'invoice'
      )`,
      payments.createdAtMs,
      payments.id,
    ),
);

export const selectCustomer = query((value: ValueOf<OfCustomer>) =>
  drizzle
    .select(fields(stripeCustomers, { userId: "userId", at: "atSeconds" }))
    .from(stripeCustomers)
    .where(
      and(eq(stripeCustomers.environmentId, value("environmentId")), eq(stripeCustomers.customer, value("customer"))),
    ),
);

/** Selects the packs of the user's past trials (S3), by their references. */
export const selectTrials = accountQuery((value: ValueOf<{ from: string; to: string }>, account) =>
  drizzle
    .selectDistinct(computed({ externalRef: sql<string>`${creditBalances.externalRef}` }))
    .from(sql`${creditBalances} INDEXED BY credit_balances_external_ref`)
    .where(
      and(
        eq(creditBalances.accountId, account),
        sql`${creditBalances.externalRef} >= ${value("from")} AND ${creditBalances.externalRef} < ${value("to")}`,
      ),
    ),
);

/** Reads a row. SQLite built its JSON from values that Purser wrote. */
export function readPayment({ namesJson, factsJson, grantsJson, ...row }: StoredPaymentRow): StoredPayment {
  return {
    ...row,
    // Only `storePayment` and erasures write this column.
    reason: row.reason as StatusReason | null,
    names: JSON.parse(namesJson) as string[],
    facts: JSON.parse(factsJson) as Fact[],
    grants: (JSON.parse(grantsJson) as StoredGrant[]).toSorted((a, b) => a.grantSeq - b.grantSeq),
  };
}

export function readEvents({
  eventsJson,
}: RowOf<Pick<typeof shownFields, "eventsJson">>): readonly StoredPaymentEvent[] {
  return (JSON.parse(eventsJson) as StoredPaymentEvent[]).toSorted((a, b) => a.at - b.at);
}
