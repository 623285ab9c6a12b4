import { sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { analyticsEvents, distinctIds } from "../../db/schema.ts";
import { batch, type Statement } from "../../db/sql.ts";
import { warn } from "../../http/warnings.ts";
import { chunkJson, writeJsonList } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { dayCounts } from "../limits/count.ts";
import { spaceGuards } from "../limits/guard-space.ts";
import { noStoredPeople, type PeopleChange, planPeople } from "../plan-people.ts";
import { peopleWrites } from "../write-people.ts";
import { selectDevicesMadeUsers } from "./devices-made-users.ts";
import type { CapturedEvent } from "./event.ts";
import type { Remaining } from "./without-erased.ts";

/** The guards of a batch of events, and which of its events are stored. They are the same for all attempts at the batch. */
export interface EventBatch {
  /** The guards of a batch that stores some events. */
  readonly guards: (events: readonly CapturedEvent[]) => Promise<readonly Statement[]>;
  readonly remaining: Remaining;
  /** Whether a limit was reached today. Then only events of ids with a verified mark are stored (L3). */
  readonly isShareFull: boolean;
}

/** The other writes of a batch of events. */
interface OtherWrites {
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
  { guards, remaining, isShareFull }: EventBatch,
  events: readonly CapturedEvent[],
  nowMs: number,
  { change, guard, following = [] }: OtherWrites,
): Promise<void> {
  const eventsToStore = remaining.toStore(events);
  const dayMs = ctx.realNow();
  const batchGuards = [...(await guards(eventsToStore)), ...(guard === undefined ? [] : [guard])];
  const devices = selectDevicesMadeUsers(ctx, eventsToStore);
  const rows: readonly unknown[][] = await batch(ctx.db, [
    ...batchGuards,
    ...devices,
    ...spaceGuards(ctx, events, dayMs, isShareFull),
    ...eventWrites(ctx, eventsToStore, nowMs),
    ...dayCounts(
      ctx,
      change.ids,
      { events, ...remaining, erasedIds: findErasedIds(events, remaining) },
      dayMs,
      isShareFull,
    ),
    ...peopleWrites(ctx, change, { nowMs, dayMs }),
    ...following,
  ]);
  const deviceRows = rows.slice(batchGuards.length, batchGuards.length + devices.length);
  if (deviceRows.some(({ length }) => length > 0)) warn(ctx, "device_made_user");
}

/**
 * Returns the records that the events of blocked ids would write if the ids had never been seen, so that what they set counts for the
 * day (E4).
 */
export function findErasedIds(events: readonly CapturedEvent[], { erased }: Remaining): PeopleChange["ids"] {
  const ofErased = erased.size === 0 ? [] : events.filter(({ distinctId }) => erased.get(distinctId)?.blocks === true);
  if (ofErased.length === 0) return [];
  return planPeople(ofErased, noStoredPeople, false).ids.filter(({ distinctId }) => erased.has(distinctId));
}

type NewEvents = { environmentId: number; events: string; nowMs: number; aheadMs: number | null; isVerified: number };

/**
 * Appends events after the id's last seq, even if the event with that seq is deleted. Skips events that are stored, or that a
 * verified event outranks (P4).
 */
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
  const stored = sql`SELECT 1 FROM ${e} WHERE ${e.environmentId} = ${ofEnvironment} AND ${e.distinctId} = value ->> 2
    AND ${e.uuid} = value ->> 0 AND ${e.isVerified} >= ${value("isVerified")}`;
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
    properties: sql`fresh.value -> 4`,
  };
  return insertFrom(
    analyticsEvents,
    row,
    sql`FROM (
      SELECT key AS place, value, value ->> 2 AS sender FROM json_each(${value("events")}) WHERE NOT EXISTS (${stored})
    ) AS fresh ORDER BY fresh.place`,
  );
});

function eventWrites(ctx: TenantCtx, events: readonly CapturedEvent[], nowMs: number): Statement[] {
  const aheadMs = ctx.clock === null ? null : nowMs - ctx.realNow();
  const isVerified = Number(ctx.caller.kind === "secret");
  // The properties are JSON inside of JSON, because a text would need an escape for each of its quotes.
  const rows = events.map(({ uuid, event, distinctId, timestampMs, properties }) =>
    writeJsonList([uuid, event, distinctId, timestampMs], properties),
  );
  return chunkJson(rows).map((chunk) =>
    insertEvents({ environmentId: ctx.environment.id, events: chunk, nowMs, aheadMs, isVerified }),
  );
}
