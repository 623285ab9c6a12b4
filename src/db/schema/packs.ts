import { sql } from "drizzle-orm";
import { check, foreignKey, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import { minorColumn, unitColumn } from "./columns.ts";
import { apps } from "./tenants.ts";

/** Credit packs and their items. */

export const creditPacks = sqliteTable(
  "credit_packs",
  {
    appId: text("app_id")
      .notNull()
      .references(() => apps.id),
    id: text("id").notNull(),
    /** Unique in its application, from 1. Balances have it in their unique index, because the id is long. */
    packNumber: integer("pack_number").notNull(),
    /** The number of its latest item. It never falls, so that no two items of a pack have one number. */
    lastItemNumber: integer("last_item_number").notNull().default(0),
    name: text("name").notNull(),
    /** The key by which names are compared (catalog/pack.ts). */
    nameKey: text("name_key").notNull(),
    defaultExpiryDays: integer("default_expiry_days"),
    /** Null for a pack with items. */
    unit: unitColumn(),
    matches: text("matches").notNull().default("[]"),
    priority: integer("priority").notNull().default(100),
    createdAtMs: integer("created_at_ms").notNull(),
    archivedAtMs: integer("archived_at_ms"),
    /** Grows by one when the pack is changed, archived or restored. A write compares it. */
    version: integer("version").notNull().default(1),
  },
  (t) => [
    primaryKey({ columns: [t.appId, t.id] }),
    uniqueIndex("credit_packs_number").on(t.appId, t.packNumber),
    uniqueIndex("credit_packs_name_key").on(t.appId, t.nameKey).where(sql`archived_at_ms IS NULL`),
  ],
);

/** SQL: the id of an item: 18 characters of its pack's id and its number, so that a balance stores only the number. Empty for 0. */
export const packItemIdSql = () =>
  sql`CASE item_number WHEN 0 THEN '' ELSE 'cpi_' || substr(pack_id, 5, 18) || printf('%04d', item_number) END`;

export const creditPackItems = sqliteTable(
  "credit_pack_items",
  {
    appId: text("app_id").notNull(),
    packId: text("pack_id").notNull(),
    position: integer("position").notNull(),
    itemNumber: integer("item_number").notNull(),
    id: text("id").notNull().generatedAlwaysAs(packItemIdSql(), { mode: "virtual" }),
    amountMinor: minorColumn("amount_minor").notNull(),
    unit: unitColumn().notNull(),
    matches: text("matches").notNull().default("[]"),
    priority: integer("priority").notNull().default(100),
  },
  (t) => [
    primaryKey({ columns: [t.appId, t.packId, t.position] }),
    foreignKey({ columns: [t.appId, t.packId], foreignColumns: [creditPacks.appId, creditPacks.id] }),
    check("credit_pack_items_amount_positive", sql`${t.amountMinor} > 0`),
  ],
);

/** Grants that are repeated each period. */

/** A recurring grant of a user (R1). Its balances are found by their reference. */
export const recurringGrants = sqliteTable(
  "recurring_grants",
  {
    accountId: integer("account_id").notNull(),
    /** Gapless per account, from 1, in order of creation. */
    ordinal: integer("ordinal").notNull(),
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    packId: text("pack_id").notNull(),
    /** The pack's name at creation. */
    packName: text("pack_name").notNull(),
    /** The quantity that each period grants, as JSON. Null for a pack with items. */
    quantity: text("quantity"),
    every: text("every", { enum: ["day", "week", "month", "year"] }).notNull(),
    /** The beginning of period 1, from which all other periods are computed. */
    anchorMs: integer("anchor_ms").notNull(),
    /** The zone whose calendar the periods follow (TZ1). */
    timeZone: text("time_zone").notNull(),
    /** The anchor's date and time in the zone, as milliseconds since 1970 of the same date and time in UTC. */
    anchorLocalMs: integer("anchor_local_ms").notNull(),
    /** The zone's last known offset: the one at the beginning of the next period, or of the last one. */
    utcOffsetMs: integer("utc_offset_ms").notNull(),
    /** No period begins at this time or later. */
    endsAtMs: integer("ends_at_ms"),
    /** For how many further periods its credits stay valid. Null: as the pack says. */
    rolloverPeriods: integer("rollover_periods"),
    /** Random. The ids of its balances are derived from it. */
    idSeed: text("id_seed").notNull(),
    state: text("state", { enum: ["active", "suspended", "ended"] }).notNull(),
    /** Why it is suspended. */
    reason: text("reason"),
    /** The last period that was granted or skipped. */
    lastN: integer("last_n").notNull(),
    /** The last period of a grant that was cancelled at a period's end. -1 if it was cancelled with immediate effect. */
    finalN: integer("final_n"),
    /** When the next period begins. Null when there is none, and while suspended. */
    nextAtMs: integer("next_at_ms"),
    /** How many balances of a period count towards the test quota (C19). */
    countedBalances: integer("counted_balances").notNull(),
    createdAtMs: integer("created_at_ms").notNull(),
    /** As in `usage_events`. */
    requestHash: text("request_hash").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.ordinal] }),
    uniqueIndex("recurring_grants_id").on(t.environmentId, t.id),
    // Counts the recurring grants of a pack.
    index("recurring_grants_pack").on(t.environmentId, t.packId).where(sql`state = 'active'`),
    // Lists the suspended ones, which an operator must look at.
    index("recurring_grants_suspended").on(t.environmentId, t.id).where(sql`state = 'suspended'`),
    index("recurring_grants_due").on(t.accountId, t.nextAtMs).where(sql`next_at_ms IS NOT NULL`),
    check("recurring_grants_every", sql`${t.every} IN ('day', 'week', 'month', 'year')`),
    check("recurring_grants_state", sql`${t.state} IN ('active', 'suspended', 'ended')`),
    check("recurring_grants_reason", sql`(${t.reason} IS NOT NULL) = (${t.state} = 'suspended')`),
    check("recurring_grants_next", sql`(${t.nextAtMs} IS NOT NULL) = (${t.state} = 'active')`),
    check("recurring_grants_rollover", sql`${t.rolloverPeriods} IS NULL OR ${t.rolloverPeriods} BETWEEN 0 AND 12`),
  ],
);
