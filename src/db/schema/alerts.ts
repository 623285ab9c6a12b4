/** Alerts and notices of expiry (H5, H6). */

import { sql } from "drizzle-orm";
import { check, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Steps } from "./steps.ts";

/** Alerts that were set (H5). */
export const alerts = sqliteTable(
  "alerts",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    name: text("name").notNull(),
    unit: text("unit", { enum: ["count", "tokens", "seconds", "cents"] }).notNull(),
    /** An event name or a glob, like the filter of a list (C4). Null for every event. */
    event: text("event"),
    /** Either an amount or a percentage, which is in thousandths of a percent. */
    amountSteps: integer("amount_steps").$type<Steps>(),
    percentThousandths: integer("percent_thousandths"),
    createdAtMs: integer("created_at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.id] }),
    check(
      "alerts_below",
      sql`iif(${t.amountSteps} IS NULL, ${t.percentThousandths} BETWEEN 1 AND 100000, ${t.amountSteps} > 0 AND ${t.percentThousandths} IS NULL) IS TRUE`,
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
