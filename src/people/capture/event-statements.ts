import { sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, fields, insertFrom, query, read, type ValueOf } from "../../db/query.ts";
import { analyticsEvents, distinctIds } from "../../db/schema.ts";
import { batch, type Statement } from "../../db/sql.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { dayCounts, type IdUse, roomGuards } from "../limits/count.ts";
import { needsStoredPeople } from "../person-event.ts";
import { type PeopleRow, peopleReads, storedPeople } from "../read-people.ts";
import type { CaptureBudget } from "./capture-budget.ts";
import type { CapturedEvent } from "./event.ts";

type UuidRow = { readonly uuid: string };

const selectUuids = query((value: ValueOf<{ environmentId: number; uuids: string }>) => {
  const { environmentId, uuid } = analyticsEvents;
  return read(
    fields(analyticsEvents, "uuid"),
    (list) => sql`
      SELECT ${list} FROM json_each(${value("uuids")}) AS i CROSS JOIN ${analyticsEvents}
      WHERE ${environmentId} = ${value("environmentId")} AND ${uuid} = i.value`,
  );
});

type NewEvents = { environmentId: number; events: string; nowMs: number; aheadMs: number | null; isVerified: number };

/** Appends events after the id's last seq, which the same statement reads, also where that event is deleted. Skips stored UUIDs. */
const insertEvents = query((value: ValueOf<NewEvents>) => {
  const [e, last, d] = [analyticsEvents, alias(analyticsEvents, "last"), distinctIds];
  const ofEnvironment = value("environmentId");
  const lastSeq = sql`(
    SELECT ${last.seq} FROM ${analyticsEvents} AS ${last}
    WHERE ${last.environmentId} = ${ofEnvironment} AND ${last.distinctId} = fresh.sender ORDER BY ${last.seq} DESC LIMIT 1
  )`;
  const counted = sql`(
    SELECT ${d.eventCount} FROM ${d} WHERE ${d.environmentId} = ${ofEnvironment} AND ${d.distinctId} = fresh.sender
  )`;
  const stored = sql`SELECT 1 FROM ${e} WHERE ${e.environmentId} = ${ofEnvironment} AND ${e.uuid} = value ->> 0`;
  const row = {
    environmentId: asInteger(ofEnvironment),
    distinctId: sql`fresh.sender`,
    seq: sql`coalesce(${lastSeq}, ${counted}, 0) + row_number() OVER (PARTITION BY fresh.sender ORDER BY fresh.place)`,
    uuid: sql`fresh.value ->> 0`,
    event: sql`fresh.value ->> 1`,
    timestampMs: sql`fresh.value ->> 3`,
    receivedAtMs: asInteger(value("nowMs")),
    aheadMs: asInteger(value("aheadMs")),
    isVerified: asInteger(value("isVerified")),
    properties: sql`fresh.value ->> 4`,
  };
  return insertFrom(
    analyticsEvents,
    row,
    sql`FROM (
      SELECT key AS place, value, value ->> 2 AS sender FROM json_each(${value("events")}) WHERE NOT EXISTS (${stored})
    ) AS fresh ORDER BY fresh.place`,
  );
});

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
