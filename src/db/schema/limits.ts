/** What counts towards the limits of analytics (L3). */

import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** What publishable keys sent of analytics on a UTC day: exact, because it is counted in the batch that stores it (L3). */
export const analyticsDays = sqliteTable(
  "analytics_days",
  {
    environmentId: integer("environment_id").notNull(),
    /** Days since 1970. */
    day: integer("day").notNull(),
    events: integer("events").notNull(),
    /** Bytes of their properties. */
    bytes: integer("bytes").notNull(),
    /** The most of one distinct id. */
    idEvents: integer("id_events").notNull(),
    idBytes: integer("id_bytes").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.day] })],
);

/** The limits of an environment that were met, once a day and limit. */
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
