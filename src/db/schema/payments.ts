/** Payments at Stripe (S1 to S6). */

import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { Steps } from "./steps.ts";

/** The setting of Stripe's payments of an environment (S1), and when something without a valid signature came last (S5). */
export const stripeSettings = sqliteTable("stripe_settings", {
  environmentId: integer("environment_id").primaryKey(),
  /** JSON; its signing secrets are sealed. Null: none is set. */
  setting: text("setting"),
  refusedAtMs: integer("refused_at_ms"),
  refusedReason: text("refused_reason"),
});

/** What every event of Stripe's did, and why (S5). */
export const stripeLog = sqliteTable(
  "stripe_log",
  {
    environmentId: integer("environment_id").notNull(),
    eventId: text("event_id").notNull(),
    type: text("type").notNull(),
    /** When it came. */
    atMs: integer("at_ms").notNull(),
    /** Of an ignored event one more than that of the one before, so that those beyond the bound are known without counting. */
    ordinal: integer("ordinal").notNull(),
    outcome: text("outcome", {
      enum: ["granted", "taken", "restored", "remembered", "unmatched", "ignored"],
    }).notNull(),
    reason: text("reason"),
    objectId: text("object_id"),
    /** The pack that it named. */
    askedPack: text("asked_pack"),
    /** The user that it named. Never of an ignored one. */
    askedUser: text("asked_user"),
    hint: text("hint"),
    paymentKey: text("payment_key"),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.eventId] }),
    index("stripe_log_at").on(t.environmentId, t.outcome, t.atMs),
    // So that an erasure finds them.
    index("stripe_log_user").on(t.environmentId, t.askedUser).where(sql`asked_user IS NOT NULL`),
    check(
      "stripe_log_outcome",
      sql`${t.outcome} = 'granted' OR ${t.outcome} = 'taken' OR ${t.outcome} = 'restored' OR ${t.outcome} = 'remembered' OR ${t.outcome} IN ('unmatched', 'ignored') AND ${t.reason} IS NOT NULL`,
    ),
    check("stripe_log_user_of_ignored", sql`${t.askedUser} IS NULL OR ${t.outcome} <> 'ignored'`),
  ],
);

/** The user of a Stripe customer, by the newest subscription session (S3). */
export const stripeCustomers = sqliteTable(
  "stripe_customers",
  {
    environmentId: integer("environment_id").notNull(),
    customer: text("customer").notNull(),
    userId: text("user_id").notNull(),
    /** `created` of the event that said it, in seconds. */
    atSeconds: integer("at_seconds").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.customer] }),
    index("stripe_customers_user").on(t.environmentId, t.userId),
  ],
);

/** A payment at Stripe. Whatever tells of it is in the tables below (S2). */
export const payments = sqliteTable(
  "payments",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    status: text("status", { enum: ["granted", "unmatched", "waiting"] }).notNull(),
    /** Why nothing was granted. Only while `unmatched`. */
    reason: text("reason"),
    /** The Stripe customer of its invoice. */
    customer: text("customer"),
    /** The stamp of the request that settled it by hand (books/ledger/request-hash.ts). Empty once it was erased. */
    settledBy: text("settled_by"),
    /** When it is told that it is unmatched. Null when it was, or is not. */
    tellAtMs: integer("tell_at_ms"),
    /** Grows by one with each write. A write that was planned on it compares it. */
    version: integer("version").notNull().default(1),
    /** The nonce of the latest write, so that one whose answer was lost finds itself. */
    writtenBy: text("written_by").notNull(),
    /** JSON: the lines of its invoice that were granted, with what was credited and paid of each (payments/line.ts). */
    lines: text("lines").notNull().default("[]"),
    /** What was paid and went back (S4), in the currency's smallest unit: for filters and sums. */
    currency: text("currency"),
    captured: integer("captured").notNull().default(0),
    refunded: integer("refunded").notNull().default(0),
    withheld: integer("withheld").notNull().default(0),
    createdAtMs: integer("created_at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.id] }),
    index("payments_created").on(t.environmentId, t.createdAtMs, t.id),
    index("payments_status").on(t.environmentId, t.status, t.createdAtMs, t.id),
    index("payments_refunded").on(t.environmentId, t.createdAtMs, t.id).where(sql`refunded > 0`),
    index("payments_disputed").on(t.environmentId, t.createdAtMs, t.id).where(sql`withheld > 0`),
    index("payments_settled").on(t.environmentId, t.createdAtMs, t.id).where(sql`settled_by IS NOT NULL`),
    index("payments_customer").on(t.environmentId, t.customer).where(sql`status = 'unmatched'`),
    index("payments_tell").on(t.tellAtMs).where(sql`tell_at_ms IS NOT NULL`),
    check(
      "payments_status",
      sql`${t.status} IN ('granted', 'waiting') AND ${t.reason} IS NULL AND ${t.tellAtMs} IS NULL OR ${t.status} = 'unmatched' AND ${t.reason} IS NOT NULL`,
    ),
  ],
);

/** The ids of Stripe's that are one payment: payment intents, session, invoice, a charge without intent. */
export const paymentNames = sqliteTable(
  "payment_names",
  {
    environmentId: integer("environment_id").notNull(),
    name: text("name").notNull(),
    paymentId: text("payment_id").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.name] }),
    index("payment_names_payment").on(t.environmentId, t.paymentId),
  ],
);

/** What Stripe said last of each object of a payment (payments/facts.ts). */
export const paymentFacts = sqliteTable(
  "payment_facts",
  {
    environmentId: integer("environment_id").notNull(),
    paymentId: text("payment_id").notNull(),
    kind: text("kind").notNull(),
    id: text("id").notNull(),
    /** `created` of the event that said it, in seconds. */
    atSeconds: integer("at_seconds").notNull(),
    /** The user that a session or an invoice names. */
    userId: text("user_id"),
    /** JSON: ids and numbers. */
    data: text("data").notNull(),
    /** Of an invoice. */
    subscription: text("subscription"),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.paymentId, t.kind, t.id] }),
    // So that an erasure finds them.
    index("payment_facts_user").on(t.environmentId, t.userId).where(sql`user_id IS NOT NULL`),
    // The newest invoice of a subscription, and what a negative line credited.
    index("payment_facts_subscription")
      .on(t.environmentId, t.subscription, t.atSeconds)
      .where(sql`subscription IS NOT NULL`),
    index("payment_facts_credit").on(t.environmentId, t.id).where(sql`kind = 'credit'`),
  ],
);

/** The balances that a payment granted, and what was taken of them because of refunds and disputes (S4). */
export const paymentGrants = sqliteTable(
  "payment_grants",
  {
    balanceId: text("balance_id").primaryKey(),
    environmentId: integer("environment_id").notNull(),
    paymentId: text("payment_id").notNull(),
    accountId: integer("account_id").notNull(),
    /** The line of an invoice that it was granted for, a key in its payment's `lines`. */
    line: text("line"),
    /** What was due of it when it was moved last. */
    dueSteps: integer("due_steps").$type<Steps>().notNull(),
    takenSteps: integer("taken_steps").$type<Steps>().notNull(),
    /** What the operator, or an erasure, took of it: revokes, and adjustments in sum. Below 0 where more was added. */
    operatorSteps: integer("operator_steps").notNull().default(0),
    /** Whether this payment revoked it. Then it may restore it. */
    isRevoked: integer("is_revoked").notNull(),
    /** Whether another grant of the same payment came first, so that all of this one is due. */
    isSurplus: integer("is_surplus").notNull(),
  },
  (t) => [
    index("payment_grants_payment").on(t.environmentId, t.paymentId),
    check("payment_grants_taken", sql`${t.takenSteps} >= 0 AND ${t.dueSteps} >= 0`),
    check("payment_grants_flags", sql`${t.isRevoked} IN (0, 1) AND ${t.isSurplus} IN (0, 1)`),
  ],
);

/** What was credited to a customer of what a user had spent (S6): one a user, customer and currency. */
export const paymentDebts = sqliteTable(
  "payment_debts",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    accountId: integer("account_id").notNull(),
    /** Null once the user was erased, which ends it. */
    customer: text("customer"),
    currency: text("currency").notNull(),
    /** In the currency's smallest unit: what its lines owe, less what lines paid of it. */
    amount: integer("amount").notNull(),
    /** Since when it is above 0. */
    sinceMs: integer("since_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.id] }),
    uniqueIndex("payment_debts_of").on(t.environmentId, t.accountId, t.customer, t.currency),
    index("payment_debts_customer").on(t.environmentId, t.customer),
    check("payment_debts_not_negative", sql`${t.amount} >= 0`),
    check("payment_debts_ended", sql`${t.customer} IS NOT NULL OR ${t.amount} = 0`),
  ],
);

/** What lines of invoices paid of debts: by so much the fewer of their credits stand. */
export const paymentDebtPayers = sqliteTable(
  "payment_debt_payers",
  {
    environmentId: integer("environment_id").notNull(),
    debtId: text("debt_id").notNull(),
    line: text("line").notNull(),
    amount: integer("amount").notNull(),
    atMs: integer("at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.debtId, t.line] }),
    check("payment_debt_payers_not_negative", sql`${t.amount} >= 0`),
  ],
);

/** The events that moved a payment, for the administrator. */
export const paymentEvents = sqliteTable(
  "payment_events",
  {
    environmentId: integer("environment_id").notNull(),
    paymentId: text("payment_id").notNull(),
    eventId: text("event_id").notNull(),
    type: text("type").notNull(),
    /** `created` of the event, in seconds. */
    atSeconds: integer("at_seconds").notNull(),
    outcome: text("outcome").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.paymentId, t.eventId] })],
);
