/** Payments through Stripe (S1 to S6). */

import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { minorColumn } from "./columns.ts";

/** The Stripe setting of an environment (S1), and when the last request without a valid signature arrived (S5). */
export const stripeSettings = sqliteTable("stripe_settings", {
  environmentId: integer("environment_id").primaryKey(),
  /** JSON; its signing secrets are sealed. Null when none is set. */
  setting: text("setting"),
  rejectedAtMs: integer("rejected_at_ms"),
  rejectedReason: text("rejected_reason"),
});

/** The outcome of every Stripe event, with its reason (S5). */
export const stripeLog = sqliteTable(
  "stripe_log",
  {
    environmentId: integer("environment_id").notNull(),
    eventId: text("event_id").notNull(),
    type: text("type").notNull(),
    /** When it arrived. */
    atMs: integer("at_ms").notNull(),
    /** Numbers the ignored events, so that the oldest beyond the bound can be deleted without counting. */
    ordinal: integer("ordinal").notNull(),
    outcome: text("outcome", {
      enum: ["granted", "taken", "restored", "remembered", "unmatched", "ignored"],
    }).notNull(),
    reason: text("reason"),
    objectId: text("object_id"),
    /** The pack that the event named. */
    requestedPack: text("requested_pack"),
    /** The user that the event named. Null for an ignored event. */
    requestedUser: text("requested_user"),
    hint: text("hint"),
    paymentKey: text("payment_key"),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.eventId] }),
    index("stripe_log_at").on(t.environmentId, t.outcome, t.atMs),
    // An erasure finds the rows by this index.
    index("stripe_log_user").on(t.environmentId, t.requestedUser).where(sql`requested_user IS NOT NULL`),
    check(
      "stripe_log_outcome",
      sql`${t.outcome} = 'granted' OR ${t.outcome} = 'taken' OR ${t.outcome} = 'restored' OR ${t.outcome} = 'remembered' OR ${t.outcome} IN ('unmatched', 'ignored') AND ${t.reason} IS NOT NULL`,
    ),
    check("stripe_log_user_of_ignored", sql`${t.requestedUser} IS NULL OR ${t.outcome} <> 'ignored'`),
  ],
);

/** The user of a Stripe customer, by the newest subscription session (S3). */
export const stripeCustomers = sqliteTable(
  "stripe_customers",
  {
    environmentId: integer("environment_id").notNull(),
    customer: text("customer").notNull(),
    userId: text("user_id").notNull(),
    /** `created` of the event that reported it, in seconds. */
    atSeconds: integer("at_seconds").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.customer] }),
    index("stripe_customers_user").on(t.environmentId, t.userId),
  ],
);

/** A payment through Stripe. The tables below hold what its events reported (S2). */
export const payments = sqliteTable(
  "payments",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    status: text("status", { enum: ["granted", "unmatched", "waiting"] }).notNull(),
    /** Why nothing was granted; `carry` also for a granted payment (S6). */
    reason: text("reason"),
    /** The Stripe customer of its invoice. */
    customer: text("customer"),
    /** The fingerprint of the request that settled it by hand (books/ledger/decision.ts). Empty once it was erased. */
    settledBy: text("settled_by"),
    /** When a message will report the payment as unmatched. Null when the message was sent or none is due. */
    notifyAtMs: integer("notify_at_ms"),
    /** Grows by one with each write. A planned write compares it. */
    version: integer("version").notNull().default(1),
    /** The nonce of the latest write, so that a write whose response was lost recognises itself. */
    writtenBy: text("written_by").notNull(),
    /** The paid and returned amounts (S4) in the currency's smallest unit, for filters and sums. */
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
    index("payments_customer").on(t.environmentId, t.customer).where(sql`customer IS NOT NULL`),
    index("payments_notify").on(t.notifyAtMs).where(sql`notify_at_ms IS NOT NULL`),
    check(
      "payments_status",
      sql`${t.status} = 'unmatched' AND ${t.reason} IS NOT NULL OR ${t.status} = 'granted' AND ${t.reason} = 'carry' OR ${t.status} IN ('granted', 'waiting') AND (${t.reason} IS NULL OR ${t.status} = 'granted' AND ${t.reason} = 'covered_by_credit') AND ${t.notifyAtMs} IS NULL`,
    ),
  ],
);

/**
 * The money of all payments of an environment on a UTC day of Stripe's events, by currency, in its smallest unit. The
 * batch that changes a payment's amounts adds the difference here, so the sums of all days are those of all payments.
 */
export const moneyDays = sqliteTable(
  "money_days",
  {
    environmentId: integer("environment_id").notNull(),
    /** Days since 1970. */
    day: integer("day").notNull(),
    currency: text("currency").notNull(),
    captured: integer("captured").notNull(),
    refunded: integer("refunded").notNull(),
    /** Withheld by disputes, less what they gave back. */
    withheld: integer("withheld").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.day, t.currency] })],
);

/** The Stripe ids of one payment: payment intents, session, invoice, a charge without an intent. */
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

/** The latest data from Stripe about each object of a payment (payments/facts.ts). */
export const paymentFacts = sqliteTable(
  "payment_facts",
  {
    environmentId: integer("environment_id").notNull(),
    paymentId: text("payment_id").notNull(),
    kind: text("kind").notNull(),
    id: text("id").notNull(),
    /** `created` of the event that reported it, in seconds. */
    atSeconds: integer("at_seconds").notNull(),
    /** The user that a session or an invoice names. */
    userId: text("user_id"),
    /** JSON: ids and numbers. */
    data: text("data").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.paymentId, t.kind, t.id] }),
    // An erasure finds the rows by this index.
    index("payment_facts_user").on(t.environmentId, t.userId).where(sql`user_id IS NOT NULL`),
  ],
);

/** The balances that a payment granted, and the amounts taken from them for refunds and disputes (S4). */
export const paymentGrants = sqliteTable(
  "payment_grants",
  {
    balanceId: text("balance_id").primaryKey(),
    environmentId: integer("environment_id").notNull(),
    paymentId: text("payment_id").notNull(),
    accountId: integer("account_id").notNull(),
    /** The amount due when it was last changed. */
    dueMinor: minorColumn("due_minor").notNull(),
    clawedBackMinor: minorColumn("clawed_back_minor").notNull(),
    /** The amount that the operator or an erasure took by revokes and adjustments. Negative when they added more. */
    operatorSteps: integer("operator_steps").notNull().default(0),
    /** Whether this payment revoked it. Then this payment may also restore it. */
    isRevoked: integer("is_revoked").notNull(),
    /** Whether another grant of the same payment came first, so that this one must be taken back completely. */
    isSurplus: integer("is_surplus").notNull(),
  },
  (t) => [
    index("payment_grants_payment").on(t.environmentId, t.paymentId),
    check("payment_grants_taken", sql`${t.clawedBackMinor} >= 0 AND ${t.dueMinor} >= 0`),
    check("payment_grants_flags", sql`${t.isRevoked} IN (0, 1) AND ${t.isSurplus} IN (0, 1)`),
  ],
);

/** A Stripe customer: its carries, and what it was granted once (S3, S6). Its invoices change it. */
export const stripePayers = sqliteTable(
  "stripe_payers",
  {
    environmentId: integer("environment_id").notNull(),
    /** The customer, or `#` and its keyed hash after the erasure of a user whom its invoices named. */
    customer: text("customer").notNull(),
    /** A random name for the audit, which must not name the customer. */
    id: text("id").notNull(),
    /** Grows by one with each write. A planned write compares it. */
    version: integer("version").notNull(),
    /** JSON: the carry of each currency, in its smallest unit. */
    carries: text("carries").notNull(),
    /** JSON list: the prices of lines that were granted. */
    prices: text("prices").notNull(),
    /** JSON list: the packs of trials that were granted. */
    trials: text("trials").notNull(),
    /** When the latest period ends that a coupon paid and that was granted, in seconds. */
    couponUntil: integer("coupon_until").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.customer] })],
);

/** The users whom the invoices of a customer named. */
export const payerUsers = sqliteTable(
  "payer_users",
  {
    environmentId: integer("environment_id").notNull(),
    userId: text("user_id").notNull(),
    customer: text("customer").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.userId, t.customer] }),
    // An erasure finds the rows of a customer by this index.
    index("payer_users_customer").on(t.environmentId, t.customer),
  ],
);

/** The events that changed a payment, for the administrator. */
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
