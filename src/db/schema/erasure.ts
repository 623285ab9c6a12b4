/** Erasures, their tombstones and their progress (E1 to E6). */

import { sql } from "drizzle-orm";
import { check, foreignKey, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";

/** Erasures of people (E1), and their receipts (E6). A row names nobody. */
export const erasures = sqliteTable(
  "erasures",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    reason: text("reason", {
      enum: ["request", "consent_withdrawn", "objection", "not_needed", "unlawful", "legal_duty"],
    }),
    keepConsent: integer("keep_consent", { mode: "boolean" }).notNull(),
    /** The key that requested it, or the administrator. */
    actor: text("actor").notNull(),
    /** Identifies the secret that hashes its tombstones (db/tombstones.ts). */
    fingerprint: text("fingerprint").notNull(),
    /** Whether all ids of the person are in `erasure_ids`. */
    isCollected: integer("is_collected").notNull().default(0),
    idCount: integer("id_count").notNull().default(0),
    /** JSON list: the numbers of rows of each kind, with a part for each page of ids (erasure/counts.ts). */
    counts: text("counts").notNull().default("[]"),
    startedAtMs: integer("started_at_ms").notNull(),
    completedAtMs: integer("completed_at_ms"),
    liftedAtMs: integer("lifted_at_ms"),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.id] }),
    // For the dashboard's list.
    index("erasures_started").on(t.environmentId, t.startedAtMs, t.id),
    index("erasures_running").on(t.environmentId, t.startedAtMs).where(sql`completed_at_ms IS NULL`),
    check("erasures_lifted_after_end", sql`${t.liftedAtMs} IS NULL OR ${t.completedAtMs} IS NOT NULL`),
  ],
);

/** An erased id, as a keyed hash (E4). A tombstone that blocks rejects all writes for the id. */
export const tombstones = sqliteTable(
  "tombstones",
  {
    environmentId: integer("environment_id").notNull(),
    hash: text("hash").notNull(),
    erasureId: text("erasure_id").notNull(),
    /** Whether writes for the id are rejected. Otherwise mentions of the id are removed until something is written for it. */
    blocks: integer("blocks").notNull(),
    /** As of an id that is not erased: the last UTC day with events by publishable keys, and their number and bytes (L3, E4). */
    day: integer("day"),
    dayEvents: integer("day_events").notNull().default(0),
    dayBytes: integer("day_bytes").notNull().default(0),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.hash] }),
    // It covers every column, or SQLite would check the foreign key through all tombstones of the environment.
    index("tombstones_erasure").on(t.environmentId, t.erasureId, t.blocks, t.day, t.dayEvents, t.dayBytes),
    foreignKey({ columns: [t.environmentId, t.erasureId], foreignColumns: [erasures.environmentId, erasures.id] }),
  ],
);

/** The ids that running erasures still process. An id is removed when none of its data is left, so the table is then empty. */
export const erasureIds = sqliteTable(
  "erasure_ids",
  {
    environmentId: integer("environment_id").notNull(),
    erasureId: text("erasure_id").notNull(),
    /** The requested id has position 0. */
    position: integer("position").notNull(),
    distinctId: text("distinct_id").notNull(),
    hash: text("hash").notNull(),
    /** The random name that replaces the id in the books. */
    pseudonym: text("pseudonym").notNull(),
    /** Whether its tombstone blocks. */
    blocks: integer("blocks").notNull(),
    /** Null when it has no credits and no usage. */
    accountId: integer("account_id"),
    /** The ledger is processed up to the first seq. The current page ends at the second. */
    ledgerFrom: integer("ledger_from").notNull().default(0),
    ledgerTo: integer("ledger_to").notNull().default(0),
    /** The same for its usage. */
    usageFrom: integer("usage_from").notNull().default(0),
    usageTo: integer("usage_to").notNull().default(0),
    /** Whether only its rows in `erasure_names` are left. */
    isDone: integer("is_done").notNull().default(0),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.erasureId, t.position] }),
    uniqueIndex("erasure_ids_distinct_id").on(t.environmentId, t.distinctId),
    uniqueIndex("erasure_ids_account").on(t.accountId).where(sql`account_id IS NOT NULL`),
  ],
);

/** Replacements for names in the books of accounts that are being erased. Empty between erasures. */
export const erasureNames = sqliteTable(
  "erasure_names",
  {
    accountId: integer("account_id").notNull(),
    /** `id`: an event's, reservation's or adjustment's id, replaced by a random one. `reference`: replaced by a keyed hash. */
    kind: text("kind", { enum: ["id", "reference"] }).notNull(),
    oldName: text("old_name").notNull(),
    newName: text("new_name").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.kind, t.oldName] }),
    uniqueIndex("erasure_names_new").on(t.accountId, t.kind, t.newName),
    check("erasure_names_kind", sql`${t.kind} IN ('id', 'reference')`),
  ],
);
