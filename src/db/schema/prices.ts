import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Price lists: what an event costs. */

/** A version of an environment's price list (PR1). Never changed; a version that is not yet in force may be deleted. */
export const priceLists = sqliteTable(
  "price_lists",
  {
    environmentId: integer("environment_id").notNull(),
    /** Counts from 1, deleted versions included. */
    version: integer("version").notNull(),
    effectiveAtMs: integer("effective_at_ms").notNull(),
    createdAtMs: integer("created_at_ms").notNull(),
    note: text("note"),
    /** JSON lists (books/prices/price.ts). */
    rules: text("rules").notNull(),
    costs: text("costs").notNull(),
    /** The id of its audit entry, by which a batch that is sent again finds its own version. */
    auditEntryId: text("audit_entry_id").notNull(),
    isDeleted: integer("is_deleted", { mode: "boolean" }).notNull().default(false),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.version] }),
    // Finds the version that is in force at a moment.
    index("price_lists_effective").on(t.environmentId, t.effectiveAtMs, t.version).where(sql`is_deleted = 0`),
    // A batch that is sent again finds its own version.
    index("price_lists_audit_entry").on(t.environmentId, t.auditEntryId),
    check("price_lists_version", sql`${t.version} BETWEEN 1 AND 10000`),
  ],
);
