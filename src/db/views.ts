/**
 * Views that only take inserts, whose triggers do something (`drizzle/0001_invariants.sql`). They are declared as tables, for
 * `insertFrom`. drizzle-kit does not read this file.
 */

import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Aborts the batch with `guard_<name>` unless it holds. */
export const guards = sqliteTable("guards", {
  name: text("name", {
    enum: ["key", "origin", "environment", "payment", "people", "tombstones", "account", "balance", "person"],
  }).notNull(),
  holds: integer("holds", { mode: "boolean" }).notNull(),
});
