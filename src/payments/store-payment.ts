import { and, eq, sql } from "drizzle-orm";
import { accountOfWrite, type WriteContext } from "../books/ledger/account.ts";
import { asInteger, assignments, drizzle, hasRow, insertFrom, names, query, type ValueOf } from "../db/query.ts";
import { paymentEvents, paymentFacts, paymentGrants, paymentNames, payments, stripeCustomers } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import { guards } from "../db/views.ts";
import type { Fact } from "./facts.ts";
import { mergePayments } from "./merge-payments.ts";
import { addMoney } from "./money-days.ts";
import type { PaymentOutcome } from "./outcomes.ts";
import type { StoredPayment } from "./stored-payment.ts";
import type { PaymentChange } from "./stripe-event.ts";

/** A write of a payment: its changes, and the stored payments that turned out to be the same. */
export interface PaymentWrite {
  readonly environmentId: number;
  readonly nowMs: number;
  readonly writtenBy: string;
  /** The payments that were read. The first is kept. Empty for a new payment. */
  readonly known: readonly StoredPayment[];
  readonly id: string;
  readonly status: StoredPayment["status"];
  readonly reason: string | null;
  readonly customer: string | null;
  readonly settledBy: string | null;
  readonly currency: string | null;
  readonly captured: number;
  readonly refunded: number;
  readonly withheld: number;
  readonly notifyAtMs: number | null;
  readonly names: readonly string[];
  readonly facts: readonly Fact[];
  /** The ids of balances to take back completely, because another grant of the payment came first. */
  readonly surplus: readonly string[];
  readonly event: Pick<PaymentChange, "eventId" | "type" | "at"> | null;
  readonly outcome: PaymentOutcome;
}

/** Returns the statements that store a payment. They abort with `guard_payment` or `payment_names_taken` if it has changed since. */
export function storePayment(write: PaymentWrite): Statement[] {
  const { environmentId, nowMs, writtenBy, known, id, status, reason, customer, settledBy, notifyAtMs, outcome } =
    write;
  const [kept, ...others] = known;
  const { currency, captured, refunded, withheld } = write;
  const money = { currency, captured, refunded, withheld };
  const values = { environmentId, id, status, reason, customer, settledBy, ...money, notifyAtMs, writtenBy };
  const otherIds = others.map((payment) => payment.id);
  const versions = JSON.stringify(known.map((payment) => ({ id: payment.id, version: payment.version })));
  const newNames = write.names.filter((name) => !known.some((payment) => payment.names.includes(name)));
  const newFacts = write.facts.filter((fact) => !kept?.facts.includes(fact));
  const createdAtMs = Math.min(nowMs, ...known.map((payment) => payment.createdAtMs));
  return [
    // The names come first, so that a repeated batch fails on a name.
    ...(newNames.length === 0 ? [] : [insertNames({ environmentId, id, names: JSON.stringify(newNames) })]),
    ...(kept === undefined
      ? [insertPayment({ ...values, createdAtMs })]
      : [guardVersions({ environmentId, versions }), updatePayment({ ...values, createdAtMs })]),
    ...addMoney(write),
    ...mergePayments({ environmentId, id, otherIds, surplus: write.surplus }),
    ...(newFacts.length === 0 ? [] : [upsertFacts({ environmentId, id, facts: JSON.stringify(newFacts) })]),
    ...(write.event === null ? [] : [upsertEvent({ environmentId, id, ...write.event, outcome })]),
  ];
}

type PaymentValues = {
  environmentId: number;
  id: string;
  status: StoredPayment["status"];
  reason: string | null;
  customer: string | null;
  settledBy: string | null;
  currency: string | null;
  captured: number;
  refunded: number;
  withheld: number;
  notifyAtMs: number | null;
  writtenBy: string;
  createdAtMs: number;
};

const insertPayment = query((value: ValueOf<PaymentValues>) =>
  drizzle.insert(payments).values({
    environmentId: value("environmentId"),
    id: value("id"),
    status: value("status"),
    reason: value("reason"),
    customer: value("customer"),
    settledBy: value("settledBy"),
    notifyAtMs: value("notifyAtMs"),
    version: 1,
    writtenBy: value("writtenBy"),
    currency: value("currency"),
    captured: value("captured"),
    refunded: value("refunded"),
    withheld: value("withheld"),
    createdAtMs: value("createdAtMs"),
  }),
);

const updatePayment = query((value: ValueOf<PaymentValues>) =>
  drizzle
    .update(payments)
    .set({
      status: value("status", payments.status),
      reason: value("reason", payments.reason),
      customer: value("customer", payments.customer),
      settledBy: value("settledBy", payments.settledBy),
      notifyAtMs: value("notifyAtMs", payments.notifyAtMs),
      version: sql`${payments.version} + 1`,
      writtenBy: value("writtenBy", payments.writtenBy),
      currency: value("currency", payments.currency),
      captured: value("captured", payments.captured),
      refunded: value("refunded", payments.refunded),
      withheld: value("withheld", payments.withheld),
      createdAtMs: value("createdAtMs", payments.createdAtMs),
    })
    .where(and(eq(payments.environmentId, value("environmentId")), eq(payments.id, value("id")))),
);

/** Aborts the batch with `guard_payment` if another write came first. */
const guardVersions = query((value: ValueOf<{ environmentId: number; versions: string }>) =>
  insertFrom(
    guards,
    { name: sql`'payment'`, holds: sql`count(${payments.id}) = count(*)` },
    sql`FROM json_each(${value("versions")}) AS known LEFT JOIN ${payments}
      ON ${payments.environmentId} = ${value("environmentId")} AND ${payments.id} = known.value ->> 'id'
      AND ${payments.version} = known.value ->> 'version'`,
  ),
);

/** Aborts the batch with `guard_payment` if the customer's user has become known since the read. */
export const guardNoCustomer = query((value: ValueOf<{ environmentId: number; customer: string }>) => {
  const { environmentId, customer } = stripeCustomers;
  const isKnown = hasRow(
    stripeCustomers,
    and(eq(environmentId, value("environmentId")), eq(customer, value("customer"))),
  );
  return insertFrom(guards, { name: sql`'payment'`, holds: sql`NOT ${isKnown}` }, sql``);
});

const insertNames = query((value: ValueOf<{ environmentId: number; id: string; names: string }>) =>
  insertFrom(
    paymentNames,
    { environmentId: asInteger(value("environmentId")), name: sql`given.value`, paymentId: value("id") },
    sql`FROM json_each(${value("names")}) AS given`,
  ),
);

const upsertFacts = query((value: ValueOf<{ environmentId: number; id: string; facts: string }>) => {
  const { environmentId, paymentId, kind, id, atSeconds, userId, data } = paymentFacts;
  const insert = insertFrom(
    paymentFacts,
    {
      environmentId: asInteger(value("environmentId")),
      paymentId: value("id"),
      kind: sql`fact.value ->> 'kind'`,
      id: sql`fact.value ->> 'id'`,
      atSeconds: sql`fact.value ->> 'at'`,
      userId: sql`fact.value ->> 'userId'`,
      data: sql`fact.value -> 'data'`,
    },
    sql`FROM json_each(${value("facts")}) AS fact WHERE 1`,
  );
  const newValues = assignments(paymentFacts, {
    atSeconds: sql`excluded.${names(atSeconds)}`,
    userId: sql`excluded.${names(userId)}`,
    data: sql`excluded.${names(data)}`,
  });
  return sql`${insert} ON CONFLICT (${names(environmentId, paymentId, kind, id)}) DO UPDATE SET ${newValues}`;
});

type EventValues = {
  environmentId: number;
  id: string;
  eventId: string;
  type: string;
  at: number;
  outcome: string;
};
const upsertEvent = query((value: ValueOf<EventValues>) => {
  const { environmentId, paymentId, eventId, outcome } = paymentEvents;
  return drizzle
    .insert(paymentEvents)
    .values({
      environmentId: value("environmentId"),
      paymentId: value("id"),
      eventId: value("eventId"),
      type: value("type"),
      atSeconds: value("at"),
      outcome: value("outcome"),
    })
    .onConflictDoUpdate({
      target: [environmentId, paymentId, eventId],
      set: { outcome: sql`excluded.${names(outcome)}` },
    });
});

/** Records the balances that the batch has issued as grants of the payment. `grants` is a JSON list of their ids. */
export const insertGrants = query((value: ValueOf<WriteContext & { paymentId: string; grants: string }>) =>
  insertFrom(
    paymentGrants,
    {
      balanceId: sql`given.value`,
      environmentId: asInteger(value("environmentId")),
      paymentId: value("paymentId"),
      accountId: accountOfWrite(value),
      dueMinor: sql`0`,
      clawedBackMinor: sql`0`,
      isRevoked: sql`0`,
      isSurplus: sql`0`,
    },
    sql`FROM json_each(${value("grants")}) AS given`,
  ),
);
