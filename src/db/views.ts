/**
 * Views whose INSTEAD OF triggers act on inserts (`drizzle/0001_invariants.sql`). They are declared as tables for `insertFrom`.
 * drizzle-kit does not read this file.
 */

import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Aborts the batch with `guard_<name>` unless `holds` is true. */
export const guards = sqliteTable("guards", {
  name: text("name", {
    enum: [
      "key",
      "origin",
      "environment",
      "payment",
      "people",
      "tombstones",
      "account",
      "balance",
      "person",
      "link",
      "space",
      "share",
      "events",
      "bytes",
      "settlement",
      "owed",
    ],
  }).notNull(),
  holds: integer("holds", { mode: "boolean" }).notNull(),
});

/** Deletes tombstones that do not block. */
export const tombstoneEnds = sqliteTable("tombstone_ends", {
  environmentId: integer("environment_id").notNull(),
  hash: text("hash").notNull(),
});

/** Deletes an account's mark when all its events are in day sums. Otherwise moves it to the first event that is not (U18). */
export const usageSummed = sqliteTable("usage_summed", {
  environmentId: integer("environment_id").notNull(),
  accountId: integer("account_id").notNull(),
  /** The mark's expected position. The batch aborts with `usage_summed_once` if it is elsewhere. */
  seq: integer("seq").notNull(),
  /** The last event that the sums include. */
  lastSeq: integer("last_seq").notNull(),
});

/** Adds to a day's analytics counts, and aborts the batch when they exceed a limit. */
export const analyticsCounts = sqliteTable("analytics_counts", {
  environmentId: integer("environment_id").notNull(),
  day: integer("day").notNull(),
  events: integer("events").notNull(),
  bytes: integer("bytes").notNull(),
  unmarkedEvents: integer("unmarked_events").notNull(),
  unmarkedBytes: integer("unmarked_bytes").notNull(),
  idEvents: integer("id_events").notNull(),
  idBytes: integer("id_bytes").notNull(),
  consents: integer("consents").notNull(),
  isShareFull: integer("is_share_full", { mode: "boolean" }).notNull(),
});
