/**
 * Views that only take inserts, whose triggers do something (`drizzle/0001_invariants.sql`). They are declared as tables, for
 * `insertFrom`. drizzle-kit does not read this file.
 */

import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Aborts the batch with `guard_<name>` unless it holds. */
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
      "events",
      "bytes",
    ],
  }).notNull(),
  holds: integer("holds", { mode: "boolean" }).notNull(),
});

/** Ends the tombstones that only cut: they are deleted. */
export const tombstoneEnds = sqliteTable("tombstone_ends", {
  environmentId: integer("environment_id").notNull(),
  hash: text("hash").notNull(),
});

/** Takes an account's mark away once its events are in their days' sums, or moves it to the first later one (U18). */
export const usageSummed = sqliteTable("usage_summed", {
  environmentId: integer("environment_id").notNull(),
  accountId: integer("account_id").notNull(),
  /** Where the mark stands. If it does not, the batch aborts with `usage_summed_once`. */
  seq: integer("seq").notNull(),
  /** The last event that is summed. */
  lastByMs: integer("last_by_ms").notNull(),
  lastSeq: integer("last_seq").notNull(),
});

/** Settles an open reservation: its holds return, and what is to be charged is debited. */
export const settlements = sqliteTable("settlements", {
  environmentId: integer("environment_id").notNull(),
  id: text("id").notNull(),
  state: text("state").notNull(),
  atMs: integer("at_ms").notNull(),
  eventId: text("event_id"),
  by: text("by_whom").notNull(),
  /** JSON list of { balanceId, deltaSteps }. */
  charges: text("charges"),
});

/** Has the balances of a settled reservation pay what they owe. */
export const owedSettlements = sqliteTable("owed_settlements", {
  environmentId: integer("environment_id").notNull(),
  reservationId: text("reservation_id").notNull(),
});

/** Adds to what was counted of analytics on a day, and aborts the batch where that passes a limit. */
export const analyticsCounts = sqliteTable("analytics_counts", {
  environmentId: integer("environment_id").notNull(),
  day: integer("day").notNull(),
  events: integer("events").notNull(),
  bytes: integer("bytes").notNull(),
  idEvents: integer("id_events").notNull(),
  idBytes: integer("id_bytes").notNull(),
  consents: integer("consents").notNull(),
});
