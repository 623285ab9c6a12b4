/** Credit packs and their items. */

import { sql } from "drizzle-orm";
import { check, foreignKey, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { Steps } from "./steps.ts";
import { apps } from "./tenants.ts";

export const creditPacks = sqliteTable(
  "credit_packs",
  {
    appId: text("app_id")
      .notNull()
      .references(() => apps.id),
    id: text("id").notNull(),
    name: text("name").notNull(),
    /** The key by which names are compared (catalog/packs/pack.ts). */
    nameKey: text("name_key").notNull(),
    defaultExpiryDays: integer("default_expiry_days"),
    /** Null for a pack with items. */
    unit: text("unit", { enum: ["count", "tokens", "seconds", "cents"] }),
    matches: text("matches").notNull().default("[]"),
    priority: integer("priority").notNull().default(100),
    createdAtMs: integer("created_at_ms").notNull(),
    archivedAtMs: integer("archived_at_ms"),
    /** Grows by one when the pack is changed, archived or restored. A write compares it. */
    version: integer("version").notNull().default(1),
  },
  (t) => [
    primaryKey({ columns: [t.appId, t.id] }),
    uniqueIndex("credit_packs_name_key").on(t.appId, t.nameKey).where(sql`archived_at_ms IS NULL`),
  ],
);

export const creditPackItems = sqliteTable(
  "credit_pack_items",
  {
    appId: text("app_id").notNull(),
    packId: text("pack_id").notNull(),
    position: integer("position").notNull(),
    id: text("id").notNull(),
    amountSteps: integer("amount_steps").$type<Steps>().notNull(),
    unit: text("unit", { enum: ["count", "tokens", "seconds", "cents"] }).notNull(),
    matches: text("matches").notNull().default("[]"),
    priority: integer("priority").notNull().default(100),
  },
  (t) => [
    primaryKey({ columns: [t.appId, t.packId, t.position] }),
    foreignKey({ columns: [t.appId, t.packId], foreignColumns: [creditPacks.appId, creditPacks.id] }),
    check("credit_pack_items_amount_positive", sql`${t.amountSteps} > 0`),
  ],
);
