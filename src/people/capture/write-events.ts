import { sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, fields, insertFrom, query, read, type ValueOf } from "../../db/query.ts";
import { analyticsEvents, distinctIds } from "../../db/schema.ts";
import { batch, type Statement } from "../../db/sql.ts";
import { warn } from "../../http/warnings.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import {
  type AnalyticsLimit,
  dayCounts,
  erasedCounts,
  type IdUse,
  isCounted,
  type ReachedLimit,
  roomGuards,
} from "../limits/count.ts";
import { needsStoredPeople } from "../person-event.ts";
import type { PeopleChange } from "../plan-people.ts";
import { type PeopleRow, peopleReads, storedPeople } from "../read-people.ts";
import { peopleWrites } from "../write-people.ts";
import type { CaptureBudget } from "./capture-budget.ts";
import { devicesMadeUsers } from "./devices-made-users.ts";
import type { CapturedEvent } from "./event.ts";
import type { Remaining } from "./without-erased.ts";

/** The guards of a batch, and which of its events are stored. */
export interface Landing {
  /** The guards of a batch that stores some events. */
  readonly guards: (events: readonly CapturedEvent[]) => Promise<readonly Statement[]>;
  readonly remaining: Remaining;
}

/** The other writes of a batch of events. */
interface Beside {
  readonly change: PeopleChange;
  /** The batch's first statement. */
  readonly guard?: Statement;
  readonly following?: readonly Statement[];
}

/**
 * Stores events without erased ids, and their changes to people, in one batch. Events of erased ids are only counted (E4).
 */
export async function writeEvents(
  ctx: TenantCtx,
  { guards, remaining }: Landing,
  events: readonly CapturedEvent[],
  nowMs: number,
  { change, guard, following = [] }: Beside,
): Promise<void> {
  const kept = remaining.of(events);
  const isErased = ({ distinctId }: CapturedEvent) => remaining.erased.get(distinctId)?.blocks === true;
  const dayMs = ctx.realNow();
  const before = [...(await guards(kept)), ...(guard === undefined ? [] : [guard])];
  const devices = devicesMadeUsers(ctx, kept);
  const rows: readonly unknown[][] = await batch(ctx.db, [
    ...before,
    ...devices,
    ...roomGuards(ctx, kept, dayMs),
    ...eventWrites(ctx, kept, nowMs),
    ...dayCounts(ctx, change.ids, dayMs),
    ...erasedCounts(ctx, isCounted(ctx) ? events.filter(isErased) : [], dayMs),
    ...peopleWrites(ctx, change, { nowMs, dayMs }),
    ...following,
  ]);
  const found = rows.slice(before.length, before.length + devices.length);
  if (found.some(({ length }) => length > 0)) warn(ctx, "device_made_user");
}

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

/** Appends events after the id's last seq, even if that event is deleted. Skips stored UUIDs. */
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

/** Reads in one batch which events are already stored, and the data that the plan of the first events needs. */
export async function readStoredEvents(
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

function eventWrites(ctx: TenantCtx, events: readonly CapturedEvent[], nowMs: number): Statement[] {
  const aheadMs = ctx.clock === null ? null : nowMs - ctx.realNow();
  const isVerified = Number(ctx.caller.kind === "secret");
  const rows = events.map((event) => [event.uuid, event.event, event.distinctId, event.timestampMs, event.properties]);
  return jsonChunks(rows).map((chunk) =>
    insertEvents({ environmentId: ctx.environment.id, events: chunk, nowMs, aheadMs, isVerified }),
  );
}

/** The results of a request's events, by UUID. */
export interface StoredEvents {
  /** Why an event linked or set nothing. */
  readonly warnings: ReadonlyMap<string, string>;
  /** Why an event was not stored: the reached limit of analytics (L3). */
  readonly drops: ReadonlyMap<string, ReachedLimit>;
  /** The reached limit of the environment. Then no more events of the request are stored. */
  readonly full: ReachedLimit | null;
}

/** Drops all events, because a limit of the environment is reached. */
export function dropAll(events: readonly CapturedEvent[], full: ReachedLimit): StoredEvents {
  return { warnings: new Map(), drops: new Map(events.map(({ uuid }) => [uuid, full])), full };
}

/** The events that were dropped because their ids exceed a limit. */
export function dropsOf(
  events: readonly CapturedEvent[],
  over: ReadonlyMap<string, AnalyticsLimit>,
): ReadonlyMap<string, AnalyticsLimit> {
  const drops = new Map<string, AnalyticsLimit>();
  for (const { uuid, distinctId } of events) {
    const limit = over.get(distinctId);
    if (limit !== undefined) drops.set(uuid, limit);
  }
  return drops;
}
