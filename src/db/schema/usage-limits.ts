/** Limits of a user's usage in a window, independent of credits (Q1 to Q6). */

import { sql } from "drizzle-orm";
import { check, foreignKey, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { Steps } from "./steps.ts";

/** Usage limits. Writes read them from the environment's features instead (books/limits/limit.ts). */
export const usageLimits = sqliteTable(
  "usage_limits",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    /** Order of creation, from 1. */
    ordinal: integer("ordinal").notNull(),
    name: text("name").notNull(),
    /** The key by which names are compared, as for packs (C7). */
    nameKey: text("name_key").notNull(),
    /** JSON list of match rules. Empty: every event. */
    matches: text("matches").notNull(),
    unit: text("unit", { enum: ["count", "tokens", "seconds", "cents"] }).notNull(),
    amountSteps: integer("amount_steps").$type<Steps>().notNull(),
    every: text("every", { enum: ["minute", "hour", "day", "week", "month"] }).notNull(),
    createdAtMs: integer("created_at_ms").notNull(),
    /** The limit is deleted; its row stays until its counters are deleted too. */
    isDeleted: integer("is_deleted", { mode: "boolean" }).notNull().default(false),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.id] }),
    uniqueIndex("usage_limits_name_key").on(t.environmentId, t.nameKey).where(sql`is_deleted = 0`),
    check("usage_limits_amount", sql`${t.amountSteps} >= 0`),
    check("usage_limits_unit", sql`${t.unit} IN ('count', 'tokens', 'seconds', 'cents')`),
    check("usage_limits_every", sql`${t.every} IN ('minute', 'hour', 'day', 'week', 'month')`),
  ],
);

/**
 * A user's usage against a limit in the current window; the next window overwrites it. Triggers add the amounts in `counted` of
 * events and reservations, and refuse an amount over the limit (Q5).
 */
export const usageCounters = sqliteTable(
  "usage_counters",
  {
    environmentId: integer("environment_id").notNull(),
    limitId: text("limit_id").notNull(),
    accountId: integer("account_id").notNull(),
    /** The beginning of the window that `used_steps` counts. 0 before the first window. */
    windowMs: integer("window_ms").notNull().default(0),
    usedSteps: integer("used_steps")
      .$type<Steps>()
      .notNull()
      .default(0 as Steps),
    /** How many counts the window has since the user reached the amount, including that count. */
    reachedCount: integer("reached_count").notNull().default(0),
    /** Whether the user has an own amount. An own amount of null means unlimited (Q2). */
    hasOwnAmount: integer("has_own_amount", { mode: "boolean" }).notNull().default(false),
    ownAmountSteps: integer("own_amount_steps").$type<Steps>(),
    /** The limit's amount at the last count, and whether that count was enforced. */
    amountSteps: integer("amount_steps")
      .$type<Steps>()
      .notNull()
      .default(0 as Steps),
    isJudged: integer("is_judged", { mode: "boolean" }).notNull().default(false),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.limitId, t.accountId] }),
    foreignKey({
      columns: [t.environmentId, t.limitId],
      foreignColumns: [usageLimits.environmentId, usageLimits.id],
      name: "usage_counters_limit",
    }),
    check("usage_counters_used", sql`${t.usedSteps} BETWEEN 0 AND 9007199254740991`),
    check(
      "usage_counters_own_amount",
      sql`iif(${t.hasOwnAmount}, coalesce(${t.ownAmountSteps}, 0) >= 0, ${t.ownAmountSteps} IS NULL)`,
    ),
  ],
);
