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
    /** A name or a glob, as the filter of a list (C4). Null for every event. */
    event: text("event"),
    /** One of the two. A percentage is in thousandths of a percent. */
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
 * The alerts that went off for a user and were not lifted since. Only while the environment has an endpoint that is on; the
 * alert that every such environment has (`credits.depleted`) has an empty id.
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

/** When balances expire, in the order in which the cron finds them (H6). Written with the balance; never changed. */
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
 * How far the cron has come with the notices of an environment: a row for each count of days that is set, and one of 0 days
 * for the expiry itself.
 */
export const expiryNotices = sqliteTable(
  "expiry_notices",
  {
    environmentId: integer("environment_id").notNull(),
    days: integer("days").notNull(),
    /** There is no notice for a moment before this. */
    sinceMs: integer("since_ms").notNull(),
    /** The last of `balance_expiries` that was looked at. */
    doneExpiresAtMs: integer("done_expires_at_ms").notNull().default(0),
    doneAccountId: integer("done_account_id").notNull().default(0),
    doneGrantSeq: integer("done_grant_seq").notNull().default(0),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.days] })],
);
