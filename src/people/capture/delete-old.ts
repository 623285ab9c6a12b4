import { all, batch, fragment, statement } from "../../db/sql.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { CronCtx, CronPart } from "../../runtime.ts";

/** Of each database. */
const STEPS_A_RUN = 10;
const QUERIES_A_STEP = 2;
const EVENTS_A_STEP = 1_000;

type Step = { beforeMs: number; limit: number };

/** SQL: when an event arrived in real time, which retention keeps in spite of a test clock (D3). */
const realSql = fragment`received_at_ms - coalesce(ahead_ms, 0)`;

/**
 * The first events that are old enough. Rowids are in the order of arrival, so no index is needed. It ends before the first that
 * is young, so that of each id the first seqs go, whatever the clocks of two isolates say.
 */
const page = fragment`
  head AS MATERIALIZED (
    SELECT rowid AS row_id, ${realSql} AS received_at_ms FROM analytics_events ORDER BY rowid LIMIT CAST(:limit AS INTEGER)
  ),
  page AS MATERIALIZED (
    SELECT row_id FROM head
    WHERE row_id < coalesce((SELECT min(row_id) FROM head WHERE received_at_ms >= :beforeMs), 9223372036854775807)
  )`;

const selectFirst = statement<{ beforeMs: number }, { isOld: 0 | 1 }>`
  SELECT ${realSql} < :beforeMs AS isOld FROM analytics_events ORDER BY rowid LIMIT 1`;

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

/** Deletes analytics events that were received too long ago (E8), the oldest first. */
export async function deleteOldEvents(
  { db, allowance, settings, now }: CronCtx,
  { steps, events } = { steps: STEPS_A_RUN, events: EVENTS_A_STEP },
): Promise<readonly unknown[]> {
  const days = settings.analyticsRetentionDays;
  if (days === null) return [];
  const beforeMs = now() - days * DAY_MS;
  const [first] = await all(db, selectFirst({ beforeMs }));
  if (first?.isOld !== 1) return [];
  const step = { beforeMs, limit: events };
  for (let n = 0; n < steps && allowance.has(QUERIES_A_STEP); n++) {
    const [, deleted] = await batch(db, [countDeleted(step), deletePage(step)] as const);
    if (deleted.length < events) break;
  }
  return [];
}

export const oldEventsPart: CronPart = {
  code: "events_not_deleted",
  weight: 1,
  queriesOfStep: QUERIES_A_STEP + 1,
  work: deleteOldEvents,
};
