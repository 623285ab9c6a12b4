/** What a user may use in a window, whatever credits there are (Q1 to Q6). */

import { sql } from "drizzle-orm";
import { check, foreignKey, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { Steps } from "./steps.ts";

/** Usage limits. Whoever writes finds those of an environment in its features (books/limits/limit.ts). */
export const usageLimits = sqliteTable(
  "usage_limits",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    /** The order of their making, from 1. */
    ordinal: integer("ordinal").notNull(),
    name: text("name").notNull(),
    /** By which names are compared, as those of packs (C7). */
    nameKey: text("name_key").notNull(),
    /** JSON list of match rules. Empty: every event. */
    matches: text("matches").notNull(),
    unit: text("unit", { enum: ["count", "tokens", "seconds", "cents"] }).notNull(),
    amountSteps: integer("amount_steps").$type<Steps>().notNull(),
    every: text("every", { enum: ["minute", "hour", "day", "week", "month"] }).notNull(),
    createdAtMs: integer("created_at_ms").notNull(),
    /** It is deleted, and only stays until its counters are gone. */
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
 * What a user has used of a limit in one window, which the next window overwrites. Triggers count what events and reservations say
 * in `counted`, and refuse what would pass (Q5).
 */
export const usageCounters = sqliteTable(
  "usage_counters",
  {
    environmentId: integer("environment_id").notNull(),
    limitId: text("limit_id").notNull(),
    accountId: integer("account_id").notNull(),
    /** When the window begins that `used_steps` is of. 0 before the first. */
    windowMs: integer("window_ms").notNull().default(0),
    usedSteps: integer("used_steps")
      .$type<Steps>()
      .notNull()
      .default(0 as Steps),
    /** How often something was counted in the window since the user reached the amount, that time included. */
    reachedCount: integer("reached_count").notNull().default(0),
    /** Whether the user has an amount of their own, which may be none at all: null (Q2). */
    hasOwnAmount: integer("has_own_amount", { mode: "boolean" }).notNull().default(false),
    ownAmountSteps: integer("own_amount_steps").$type<Steps>(),
    /** The limit's amount when something was counted last, and whether that was judged. */
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
