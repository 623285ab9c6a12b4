import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The overview's figures. Nothing else reads them. */

/**
 * Daily figures, for the overview only. Isolates count them and write them after responses. If an isolate ends before it has
 * written, its figures are missing. So nothing else may depend on them.
 */
export const dailyActivity = sqliteTable(
  "daily_activity",
  {
    environmentId: integer("environment_id").notNull(),
    kind: text("kind").notNull(),
    /** Days since the epoch, UTC. */
    day: integer("day").notNull(),
    /** The unit of amounts in minor units. Empty for plain counts. */
    unit: text("unit").notNull(),
    amount: integer("amount").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.kind, t.day, t.unit] })],
);

/**
 * Recent rejections, for the overview: who asked for what, and why it was rejected. They are written like `daily_activity`, so
 * nothing else may depend on them. Only the newest of each kind are kept, for a limited time (db/rejections.ts).
 */
export const rejections = sqliteTable(
  "rejections",
  {
    environmentId: integer("environment_id").notNull(),
    /** Empty for an erased person. */
    userId: text("user_id").notNull(),
    /** The member who would have used it. Empty for none. */
    memberId: text("member_id").notNull().default(""),
    kind: text("kind", { enum: ["shortage", "usage_limit", "failed_grant"] }).notNull(),
    /** The event of a usage; the pack of a grant, as it was named. */
    subject: text("subject").notNull(),
    /** The model of a usage. Empty if it has none, and for a grant. */
    model: text("model").notNull(),
    /** The reason of the last rejection: JSON, which db/rejections.ts writes. */
    reason: text("reason").notNull(),
    times: integer("times").notNull(),
    lastAtMs: integer("last_at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.userId, t.memberId, t.kind, t.subject, t.model] }),
    index("rejections_member").on(t.environmentId, t.memberId).where(sql`member_id <> ''`),
    index("rejections_latest").on(t.environmentId, t.kind, t.lastAtMs),
    check("rejections_kind", sql`${t.kind} IN ('shortage', 'usage_limit', 'failed_grant')`),
  ],
);

/** The cron's walks over a database's users, which compute `business_figures`. At most one runs at a time. */
export const businessWalks = sqliteTable("business_walks", {
  beganAtMs: integer("began_at_ms").primaryKey(),
  /** The last account that its figures include. */
  afterAccountId: integer("after_account_id").notNull(),
  finishedAtMs: integer("finished_at_ms"),
});

/** A walk's sums for an environment, for the overview. Each sum has two parts, so that neither exceeds an integer. */
export const businessFigures = sqliteTable(
  "business_figures",
  {
    environmentId: integer("environment_id").notNull(),
    beganAtMs: integer("began_at_ms").notNull(),
    kind: text("kind", { enum: ["outstanding", "expired", "expiring", "users", "active"] }).notNull(),
    /** A pack's id, a day since 1970, or a number of days. */
    label: text("label").notNull(),
    /** Empty for counts. */
    unit: text("unit").notNull(),
    /** Millions of minor units, or a count. `rest` has the remaining minor units. */
    whole: integer("whole").notNull(),
    rest: integer("rest").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.beganAtMs, t.kind, t.label, t.unit] })],
);

/** Counts for the limits of analytics (L3). */

/** Analytics sent with publishable and relay keys on a UTC day. Exact, because the batch that stores events counts them (L3). */
export const analyticsDays = sqliteTable(
  "analytics_days",
  {
    environmentId: integer("environment_id").notNull(),
    /** Days since 1970. */
    day: integer("day").notNull(),
    events: integer("events").notNull(),
    /** Bytes as they are stored. */
    bytes: integer("bytes").notNull(),
    /** The events, and their bytes, of ids without a verified mark (P2). They fill at most three quarters of the limits. */
    unmarkedEvents: integer("unmarked_events").notNull(),
    unmarkedBytes: integer("unmarked_bytes").notNull(),
    /** The environment's own limits when a limit was reached; empty for the default ones. Null while none was reached. */
    reachedLimits: text("reached_limits"),
    /** The highest count of a single distinct id. */
    idEvents: integer("id_events").notNull(),
    idBytes: integer("id_bytes").notNull(),
    /** Entries of the consent log (P5). */
    consents: integer("consents").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.day] })],
);

/** The reached limits of an environment, once a day and limit. */
export const limitsReached = sqliteTable(
  "limits_reached",
  {
    environmentId: integer("environment_id").notNull(),
    day: integer("day").notNull(),
    limitName: text("limit_name").notNull(),
    reachedAtMs: integer("reached_at_ms").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.day, t.limitName] })],
);

/** The size of this database's file: one row, which the cron writes once a minute (L3). */
export const databaseSize = sqliteTable(
  "database_size",
  {
    id: integer("id").primaryKey(),
    bytes: integer("bytes").notNull(),
    /** Bytes that retention and erasures have freed inside the file since it last grew. */
    freedBytes: integer("freed_bytes").notNull(),
  },
  (t) => [
    check("database_size_one_row", sql`${t.id} = 1`),
    check("database_size_positive", sql`${t.bytes} >= 0 AND ${t.freedBytes} >= 0`),
  ],
);
