/** Monthly statements for accounting. */

import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import { unitColumn } from "./columns.ts";

/** The statement of an environment's month. The cron makes it, a page of accounts at a time. */
export const statements = sqliteTable(
  "statements",
  {
    environmentId: integer("environment_id").notNull(),
    /** `2026-11`, in UTC. */
    month: text("month").notNull(),
    id: text("id").notNull(),
    /** Its lines include the accounts up to this one. */
    afterAccountId: integer("after_account_id").notNull(),
    requestedAtMs: integer("requested_at_ms").notNull(),
    /** Null while it is incomplete. */
    completedAtMs: integer("completed_at_ms"),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.month] }),
    uniqueIndex("statements_id").on(t.id),
    index("statements_running").on(t.environmentId, t.month).where(sql`completed_at_ms IS NULL`),
    check("statements_month", sql`${t.month} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]'`),
  ],
);

/** A month's amounts of a pack and unit. */
export const statementLines = sqliteTable(
  "statement_lines",
  {
    statementId: text("statement_id").notNull(),
    unit: unitColumn().notNull(),
    packId: text("pack_id").notNull(),
    /** The pack's name when the statement was made. */
    packName: text("pack_name").notNull(),
    /** Minor by column, as decimal texts: a sum over all users may be larger than an integer of SQLite. */
    amounts: text("amounts", { mode: "json" }).$type<Record<string, string>>().notNull(),
  },
  (t) => [primaryKey({ columns: [t.statementId, t.unit, t.packId] })],
);
