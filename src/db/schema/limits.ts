/** Counts for the limits of analytics (L3). */

import { sql } from "drizzle-orm";
import { check, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Analytics sent with publishable keys on a UTC day. Exact, because the batch that stores events counts them (L3). */
export const analyticsDays = sqliteTable(
  "analytics_days",
  {
    environmentId: integer("environment_id").notNull(),
    /** Days since 1970. */
    day: integer("day").notNull(),
    events: integer("events").notNull(),
    /** Bytes as they are stored. */
    bytes: integer("bytes").notNull(),
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
