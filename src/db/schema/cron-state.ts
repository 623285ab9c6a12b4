import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Work that failed in the cron, and that waits for its next attempt (db/cron-work.ts). */
export const cronFaults = sqliteTable(
  "cron_faults",
  {
    /** The code of the cron's part, as in the log. */
    part: text("part").notNull(),
    /** The failed piece: an account, an environment, an erasure or a statement, by an id that is unique in the database. */
    subject: text("subject").notNull(),
    environmentId: integer("environment_id").notNull(),
    /** The kind of the last failure, as in the log. It names nobody. */
    kind: text("kind").notNull(),
    tries: integer("tries").notNull(),
    /** The times are real, also with a test clock. */
    failedAtMs: integer("failed_at_ms").notNull(),
    retryAtMs: integer("retry_at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.part, t.subject] }),
    // Lists the faults of an environment, for the overview.
    index("cron_faults_environment").on(t.environmentId),
    // Deletes those that nothing retries.
    index("cron_faults_retry").on(t.retryAtMs),
  ],
);
