import { all, batch, type Db, fragment, statement } from "../db/sql.ts";
import { DAY_MS } from "../lib/time.ts";
import type { SystemCtx } from "../runtime.ts";

/** Of each database, in one run. */
const STEPS_A_RUN = 10;
const EVENTS_A_STEP = 1_000;

type Step = { beforeMs: number; limit: number };

/**
 * The first events that are old enough. Rowids are in the order of arrival, so no index is needed. It ends before the first that
 * is young, so that of each id the first seqs go, whatever the clocks of two isolates say.
 */
const page = fragment`
  head AS MATERIALIZED (
    SELECT rowid AS row_id, received_at_ms FROM analytics_events ORDER BY rowid LIMIT CAST(:limit AS INTEGER)
  ),
  page AS MATERIALIZED (
    SELECT row_id FROM head
    WHERE row_id < coalesce((SELECT min(row_id) FROM head WHERE received_at_ms >= :beforeMs), 9223372036854775807)
  )`;

const selectFirst = statement<{ beforeMs: number }, { isOld: 0 | 1 }>`
  SELECT received_at_ms < :beforeMs AS isOld FROM analytics_events ORDER BY rowid LIMIT 1`;

/** The records stay, and say how many are gone. An upsert, because an UPDATE with a join might read all records. */
const countDeleted = statement<Step>`
  INSERT INTO distinct_ids (
    environment_id, distinct_id, first_seen_at_ms, last_seen_at_ms, is_device_form, event_count, deleted_count, event_bytes
  )
  WITH ${page}, gone AS MATERIALIZED (
    SELECT e.environment_id, e.distinct_id, count(*) AS events, sum(octet_length(e.properties)) AS bytes
    FROM page CROSS JOIN analytics_events AS e ON e.rowid = page.row_id GROUP BY e.environment_id, e.distinct_id
  )
  SELECT d.environment_id, d.distinct_id, d.first_seen_at_ms, d.last_seen_at_ms, d.is_device_form, d.event_count,
    gone.events, gone.bytes
  FROM gone CROSS JOIN distinct_ids AS d ON d.environment_id = gone.environment_id AND d.distinct_id = gone.distinct_id
  WHERE true
  ON CONFLICT (environment_id, distinct_id) DO UPDATE SET
    deleted_count = deleted_count + excluded.deleted_count, event_bytes = event_bytes - excluded.event_bytes`;

const deletePage = statement<Step, { isDeleted: 1 }>`
  WITH ${page} DELETE FROM analytics_events WHERE rowid IN (SELECT row_id FROM page) RETURNING 1 AS isDeleted`;

/** Deletes analytics events that were received too long ago (E8), the oldest of each database. Answers the errors of databases. */
export async function deleteOldEvents(
  root: SystemCtx,
  limits = { steps: STEPS_A_RUN, events: EVENTS_A_STEP },
): Promise<readonly unknown[]> {
  const days = root.settings.analyticsRetentionDays;
  if (days === null) return [];
  const failures: unknown[] = [];
  const beforeMs = root.now() - days * DAY_MS;
  for (const { db } of root.databases) {
    await deleteFrom(db, beforeMs, limits).catch((error) => failures.push(error));
  }
  return failures;
}

async function deleteFrom(db: Db, beforeMs: number, { steps, events }: { steps: number; events: number }) {
  const [first] = await all(db, selectFirst({ beforeMs }));
  if (first?.isOld !== 1) return;
  const step = { beforeMs, limit: events };
  for (let n = 0; n < steps; n++) {
    const [, deleted] = await batch(db, [countDeleted(step), deletePage(step)] as const);
    if (deleted.length < events) return;
  }
}
