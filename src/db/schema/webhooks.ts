import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { minorColumn, unitColumn } from "./columns.ts";
import { environments } from "./tenants.ts";

/** Webhook endpoints, messages and deliveries (H1 to H4). */

/** Webhook endpoints (H1). A trigger allows at most ten an environment. */
export const webhookEndpoints = sqliteTable(
  "webhook_endpoints",
  {
    id: text("id").primaryKey(),
    environmentId: integer("environment_id")
      .notNull()
      .references(() => environments.id),
    url: text("url").notNull(),
    /** JSON list of globs. Null for all types except those that must be requested by name. */
    types: text("types", { mode: "json" }).$type<readonly string[]>(),
    /** Whether `types` include `person.exported`, for statements that write the message without a prior read. */
    wantsExports: integer("wants_exports", { mode: "boolean" }).notNull().default(false),
    description: text("description"),
    isEnabled: integer("is_enabled", { mode: "boolean" }).notNull().default(true),
    /** Sealed. */
    secret: text("secret").notNull(),
    /** Sealed. It also signs until `previousUntilMs`. */
    previousSecret: text("previous_secret"),
    previousUntilMs: integer("previous_until_ms"),
    /** Since when every attempt has failed. Null when the last attempt succeeded or none was made. */
    failingSinceMs: integer("failing_since_ms"),
    /** When it was last switched off, and when it was switched on again. Nothing was written for it in between (H1). */
    offFromMs: integer("off_from_ms"),
    offUntilMs: integer("off_until_ms"),
    createdAtMs: integer("created_at_ms").notNull(),
  },
  (t) => [index("webhook_endpoints_environment").on(t.environmentId, t.createdAtMs, t.id)],
);

/** Messages to endpoints (H2), kept for 30 days. An id begins with the time, so that ids are in order of creation. */
export const webhookMessages = sqliteTable(
  "webhook_messages",
  {
    id: text("id").primaryKey(),
    environmentId: integer("environment_id").notNull(),
    type: text("type").notNull(),
    atMs: integer("at_ms").notNull(),
    /** The user id or distinct id in the message, so that an erasure finds it; of `price.missing`, the event and model. */
    subject: text("subject"),
    /** JSON object. */
    data: text("data").notNull(),
  },
  (t) => [
    index("webhook_messages_subject").on(t.environmentId, t.subject).where(sql`subject IS NOT NULL`),
    // So that the erasure of a member finds them.
    index("webhook_messages_member")
      .on(t.environmentId, sql`data ->> 'memberId'`)
      .where(sql`data ->> 'memberId' IS NOT NULL`),
  ],
);

/** The delivery of a message to an endpoint (H4). */
export const webhookDeliveries = sqliteTable(
  "webhook_deliveries",
  {
    endpointId: text("endpoint_id").notNull(),
    messageId: text("message_id").notNull(),
    status: text("status", { enum: ["pending", "delivered", "failed"] }).notNull(),
    /** How many scheduled attempts were made. */
    tries: integer("tries").notNull().default(0),
    nextAttemptAtMs: integer("next_attempt_at_ms").notNull(),
    /** The earliest time of the next attempt: when it is due, or when another run's lease ends. */
    dueAtMs: integer("due_at_ms").notNull(),
    /** JSON list of { at, status, durationMs, error, answer }. `answer` is the beginning of a failed response (H4). */
    attempts: text("attempts").notNull().default("[]"),
  },
  (t) => [
    primaryKey({ columns: [t.endpointId, t.messageId] }),
    index("webhook_deliveries_due").on(t.endpointId, t.dueAtMs).where(sql`status = 'pending'`),
    check("webhook_deliveries_status", sql`${t.status} IN ('pending', 'delivered', 'failed')`),
  ],
);

/** Alerts and notices of expiry (H5, H6). */

/** Alerts that were set (H5). */
export const alerts = sqliteTable(
  "alerts",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    name: text("name").notNull(),
    unit: unitColumn().notNull(),
    /** An event name or a glob, like the filter of a list (C4). Null for every event. */
    event: text("event"),
    /** Either an amount or a percentage, which is in thousandths of a percent. */
    amountMinor: minorColumn("amount_minor"),
    percentThousandths: integer("percent_thousandths"),
    createdAtMs: integer("created_at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.id] }),
    check(
      "alerts_below",
      sql`iif(${t.amountMinor} IS NULL, ${t.percentThousandths} BETWEEN 1 AND 100000, ${t.amountMinor} > 0 AND ${t.percentThousandths} IS NULL) IS TRUE`,
    ),
  ],
);

/**
 * The alerts that have fired for a user and are not re-armed yet. They are kept only while the environment has an enabled
 * endpoint. The built-in alert `credits.depleted` has an empty id.
 */
export const alertStates = sqliteTable(
  "alert_states",
  {
    environmentId: integer("environment_id").notNull(),
    alertId: text("alert_id").notNull(),
    accountId: integer("account_id").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.alertId, t.accountId] })],
);

/** Expiry times of balances, in the order in which the cron reads them (H6). Written with the balance, and never changed. */
export const balanceExpiries = sqliteTable(
  "balance_expiries",
  {
    environmentId: integer("environment_id").notNull(),
    expiresAtMs: integer("expires_at_ms").notNull(),
    accountId: integer("account_id").notNull(),
    grantSeq: integer("grant_seq").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.expiresAtMs, t.accountId, t.grantSeq] })],
);

/**
 * The cron's progress with the expiry notices of an environment: a row for each configured number of days, and one with 0 days
 * for the expiry itself.
 */
export const expiryNotices = sqliteTable(
  "expiry_notices",
  {
    environmentId: integer("environment_id").notNull(),
    days: integer("days").notNull(),
    /** No notice is sent for a moment before this. */
    sinceMs: integer("since_ms").notNull(),
    /** The last processed row of `balance_expiries`. */
    doneExpiresAtMs: integer("done_expires_at_ms").notNull().default(0),
    doneAccountId: integer("done_account_id").notNull().default(0),
    doneGrantSeq: integer("done_grant_seq").notNull().default(0),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.days] })],
);
