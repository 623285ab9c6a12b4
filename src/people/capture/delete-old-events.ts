import { sql } from "drizzle-orm";
import {
  asInteger,
  assignments,
  computed,
  insertFrom,
  names,
  query,
  read,
  returning,
  type ValueOf,
} from "../../db/query.ts";
import { analyticsEvents, databaseSize, distinctIds, firstSeenOfKnownId } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { DAY_MS, HOUR_MS } from "../../lib/time.ts";
import type { CronCtx, CronPart } from "../../runtime.ts";
import { storedBytes } from "../limits/stored-bytes.ts";

/** For each database. */
const RETENTION_STEPS_A_RUN = 10;
const RETENTION_QUERIES_A_STEP = 3;
const EVENTS_A_STEP = 1_000;

type RetentionStep = { beforeMs: number; limit: number };

/** SQL: when an event arrived, in real time. Retention uses real time even with a test clock (D3). */
const arrivedMs = sql`${analyticsEvents.receivedAtMs} - coalesce(${analyticsEvents.aheadMs}, 0)`;
const rowid = sql`${analyticsEvents}.rowid`;

/**
 * WITH: the oldest events. Rowids are in order of arrival, so no index is needed. The page ends before the first event that is too
 * young, so that only the first seqs of an id are deleted even if the clocks of isolates differ.
 */
const withPage = (value: ValueOf<RetentionStep>) => sql`WITH
  head (event_rowid, arrived) AS MATERIALIZED (
    SELECT ${rowid}, ${arrivedMs} FROM ${analyticsEvents} ORDER BY ${rowid} LIMIT ${asInteger(value("limit"))}
  ),
  page (event_rowid) AS MATERIALIZED (
    SELECT event_rowid FROM head
    WHERE event_rowid < coalesce((SELECT min(event_rowid) FROM head WHERE arrived >= ${value("beforeMs")}), 9223372036854775807)
  )`;

const selectFirst = query((value: ValueOf<{ beforeMs: number }>) =>
  read(
    computed({ isOld: sql`${arrivedMs} < ${value("beforeMs")}`.mapWith(Boolean) }),
    (list) => sql`SELECT ${list} FROM ${analyticsEvents} ORDER BY ${rowid} LIMIT 1`,
  ),
);

/** Counts the deleted events in the ids' records. It is an upsert, because an UPDATE with a join might read all records. */
const countDeleted = query((value: ValueOf<RetentionStep>) => {
  const { environmentId, distinctId, lastSeenAtMs, isDeviceForm } = distinctIds;
  const { eventCount, deletedCount, replacedCount, eventBytes } = distinctIds;
  const { seq, replacedBy, properties } = analyticsEvents;
  const deleted = sql`
    SELECT ${analyticsEvents.environmentId}, ${analyticsEvents.distinctId}, max(${seq}), sum(${replacedBy} IS NULL),
      coalesce(sum(octet_length(${properties})) FILTER (WHERE ${replacedBy} IS NULL), 0)
    FROM page CROSS JOIN ${analyticsEvents} ON ${rowid} = page.event_rowid
    GROUP BY ${analyticsEvents.environmentId}, ${analyticsEvents.distinctId}`;
  const unchanged = {
    environmentId,
    distinctId,
    firstSeenAtMs: firstSeenOfKnownId,
    lastSeenAtMs,
    isDeviceForm,
    eventCount,
  };
  // The seqs up to the last one are those of the deleted events and of replaced events.
  const counts = {
    deletedCount: sql`deleted.last`,
    replacedCount: sql`${replacedCount} - (deleted.last - ${deletedCount} - deleted.number)`,
    eventBytes: sql`${eventBytes} - deleted.size`,
  };
  const from = sql`FROM deleted CROSS JOIN ${distinctIds}
    ON ${environmentId} = deleted.tenant AND ${distinctId} = deleted.sender WHERE true`;
  const set = assignments(distinctIds, {
    deletedCount: sql`excluded.${names(deletedCount)}`,
    replacedCount: sql`excluded.${names(replacedCount)}`,
    eventBytes: sql`excluded.${names(eventBytes)}`,
  });
  return sql`${withPage(value)}, deleted (tenant, sender, last, number, size) AS MATERIALIZED (${deleted})
    ${insertFrom(distinctIds, { ...unchanged, ...counts }, from)}
    ON CONFLICT (${names(environmentId, distinctId)}) DO UPDATE SET ${set}`;
});

/** Counts the freed bytes. The database's file keeps its size and reuses them. */
const countFreedByRetention = query((value: ValueOf<RetentionStep>) => {
  const freed = sql`(SELECT coalesce(sum(${storedBytes()}), 0) FROM page CROSS JOIN ${analyticsEvents} ON ${rowid} = page.event_rowid)`;
  const { freedBytes } = databaseSize;
  return sql`${withPage(value)} UPDATE ${databaseSize} SET ${assignments(databaseSize, { freedBytes: sql`${freedBytes} + ${freed}` })}
    WHERE ${databaseSize.id} = 1`;
});

const deleteEventsPage = query((value: ValueOf<RetentionStep>) =>
  returning(
    computed({ isDeleted: sql<1>`1` }),
    (list) => sql`${withPage(value)}
      DELETE FROM ${analyticsEvents} WHERE ${rowid} IN (SELECT event_rowid FROM page) RETURNING ${list}`,
  ),
);

/** Deletes analytics events that were received too long ago (E8), the oldest first. */
export async function deleteOldAnalytics(
  { db, allowance, settings, now }: CronCtx,
  { steps, events } = { steps: RETENTION_STEPS_A_RUN, events: EVENTS_A_STEP },
): Promise<readonly unknown[]> {
  const days = settings.analyticsRetentionDays;
  if (days === null) return [];
  const beforeMs = now() - days * DAY_MS;
  const [first] = await all(db, selectFirst({ beforeMs }));
  if (first?.isOld !== true) return [];
  const step = { beforeMs, limit: events };
  for (let n = 0; n < steps && allowance.has(RETENTION_QUERIES_A_STEP); n++) {
    const [, , deleted] = await batch(db, [
      countDeleted(step),
      countFreedByRetention(step),
      deleteEventsPage(step),
    ] as const);
    if (deleted.length < events) break;
  }
  return [];
}

export const oldEventsPart: CronPart = {
  code: "events_not_deleted",
  weight: 1,
  queriesOfStep: RETENTION_QUERIES_A_STEP + 1,
  work: deleteOldAnalytics,
};

/** How long a replaced event stays, for exports that began before (P4). */
const REPLACED_FOR_MS = HOUR_MS;

type ReplacedStep = { beforeMs: number; limit: number };
const replacedPage = (value: ValueOf<ReplacedStep>) => sql`
  SELECT ${rowid} FROM ${analyticsEvents} INDEXED BY analytics_events_replaced
  WHERE ${analyticsEvents.replacedAtMs} IS NOT NULL AND ${analyticsEvents.replacedAtMs} < ${value("beforeMs")}
  ORDER BY ${analyticsEvents.replacedAtMs} LIMIT ${asInteger(value("limit"))}`;

const deleteReplacedPage = query((value: ValueOf<ReplacedStep>) =>
  returning(
    computed({ isDeleted: sql<1>`1` }),
    (list) => sql`DELETE FROM ${analyticsEvents} WHERE ${rowid} IN (${replacedPage(value)}) RETURNING ${list}`,
  ),
);

/** Deletes the events that verified events replaced an hour ago (P4). Their ids' records do not count them any more. */
export async function deleteReplacedEvents(
  { db, allowance, now }: CronCtx,
  { steps, events } = { steps: RETENTION_STEPS_A_RUN, events: EVENTS_A_STEP },
): Promise<readonly unknown[]> {
  const step = { beforeMs: now() - REPLACED_FOR_MS, limit: events };
  for (let n = 0; n < steps && allowance.has(1); n++) {
    const deleted = await all(db, deleteReplacedPage(step));
    if (deleted.length < events) break;
  }
  return [];
}

export const replacedEventsPart: CronPart = {
  code: "replaced_events_not_deleted",
  weight: 1,
  queriesOfStep: 1,
  work: deleteReplacedEvents,
};
