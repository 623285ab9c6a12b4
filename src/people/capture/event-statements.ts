import { batch, nowMsSql, type Statement, statement } from "../../db/sql.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { dayCounts, type IdUse, roomGuards } from "../limits/count.ts";
import { needsStoredPeople } from "../person-event.ts";
import { type PeopleRow, peopleReads, storedPeople } from "../read-people.ts";
import type { CaptureBudget } from "./capture-budget.ts";
import type { CapturedEvent } from "./event.ts";

type UuidRow = { readonly uuid: string };

const selectUuids = statement<{ environmentId: number; uuids: string }, UuidRow>`
  SELECT e.uuid AS uuid FROM json_each(:uuids) AS i CROSS JOIN analytics_events AS e
  WHERE e.environment_id = :environmentId AND e.uuid = i.value`;

/** Appends events after the id's last seq, which the same statement reads, also where that event is deleted. Skips stored UUIDs. */
const insertEvents = statement<{
  environmentId: number;
  events: string;
  nowMs: number;
  aheadMs: number | null;
  isVerified: number;
}>`
  INSERT INTO analytics_events (
    environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, ahead_ms, is_verified, properties
  )
  SELECT CAST(:environmentId AS INTEGER), distinct_id, coalesce((
      SELECT seq FROM analytics_events AS last
      WHERE last.environment_id = :environmentId AND last.distinct_id = new_events.distinct_id
      ORDER BY seq DESC LIMIT 1
    ), (
      SELECT event_count FROM distinct_ids AS d
      WHERE d.environment_id = :environmentId AND d.distinct_id = new_events.distinct_id
    ), 0) + row_number() OVER (PARTITION BY distinct_id ORDER BY position),
    value ->> 0, value ->> 1, value ->> 3, ${nowMsSql}, CAST(:aheadMs AS INTEGER), CAST(:isVerified AS INTEGER), value ->> 4
  FROM (
    SELECT key AS position, value, value ->> 2 AS distinct_id FROM json_each(:events)
    WHERE NOT EXISTS (
      SELECT 1 FROM analytics_events WHERE environment_id = :environmentId AND uuid = value ->> 0
    )
  ) AS new_events
  ORDER BY position`;

/** Reads in one trip which events are stored already, and all that the plan of the first of them needs. */
export async function readStored(
  ctx: TenantCtx,
  asked: readonly CapturedEvent[],
  budget: CaptureBudget,
  useReads: readonly Statement<IdUse>[],
) {
  const environmentId = ctx.environment.id;
  const uuids = jsonChunks(asked.map(({ uuid }) => uuid));
  const reads: Statement<UuidRow | PeopleRow | IdUse>[] = uuids.map((chunk) =>
    selectUuids({ environmentId, uuids: chunk }),
  );
  const results = await batch(ctx.db, [...reads, ...peopleReads(ctx, asked), ...useReads]);
  const storedUuids = new Set<string>();
  const rows: PeopleRow[] = [];
  const uses: IdUse[] = [];
  for (const row of results.flat()) {
    if ("uuid" in row) storedUuids.add(row.uuid);
    else if ("limits" in row) uses.push(row);
    else rows.push(row);
  }
  const stored = storedPeople(rows);
  budget.spend(stored.properties.reduce((sum, { properties }) => sum + properties.length, 0));
  const end = asked.findIndex((event) => needsStoredPeople(event) && stored.unread.has(event.distinctId));
  const sent = end === -1 ? asked : asked.slice(0, end);
  return { sent, newEvents: sent.filter(({ uuid }) => !storedUuids.has(uuid)), stored, uses };
}

/** Stores events, and counts them for the day's limits. */
export function eventWrites(ctx: TenantCtx, events: readonly CapturedEvent[], nowMs: number): Statement[] {
  const aheadMs = ctx.clock === null ? null : nowMs - ctx.realNow();
  const isVerified = Number(ctx.caller.kind === "secret");
  const rows = events.map((event) => [event.uuid, event.event, event.distinctId, event.timestampMs, event.properties]);
  const inserts = jsonChunks(rows).map((chunk) =>
    insertEvents({ environmentId: ctx.environment.id, events: chunk, nowMs, aheadMs, isVerified }),
  );
  return [...roomGuards(ctx, events, nowMs), ...inserts, ...dayCounts(ctx, events, nowMs)];
}
