import { and, eq, not, or, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, drizzle, fields, insertFrom, query, read, scalar, type ValueOf } from "../../db/query.ts";
import { analyticsEvents, distinctIds } from "../../db/schema.ts";
import { batch, type Statement, type StatementRow } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import { warn } from "../../http/warnings.ts";
import { utf8Length } from "../../lib/encoding.ts";
import { jsonChunks, jsonChunksOf, jsonListOf } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { isDeviceForm, makesUser, needsStoredPeople } from "../claims.ts";
import {
  type AnalyticsLimit,
  type DropReason,
  dayCounts,
  type EnvironmentLimit,
  type IdUse,
  isCounted,
  spaceGuards,
} from "../limits/count.ts";
import { eventKey, noStoredPeople, type PeopleChange, planPeople, type StoredPeople } from "../plan-people.ts";
import { type PeopleRow, peopleReads, storedPeople } from "../read-people.ts";
import { isUserBy } from "../user-marks.ts";
import { peopleWrites } from "../write-people.ts";
import type { CapturedEvent } from "./event.ts";
import type { Remaining } from "./without-erased.ts";

/** The most bytes of stored properties that the plan of one request may read. */
const READ_BYTES_MAX = 16 * 1024 * 1024;
/** The most bytes of stored properties that one request with a publishable or relay key may rewrite (L1). */
const REWRITTEN_BYTES_MAX = 4 * 1024 * 1024;

/** The budget of stored properties that the parts of one request share. */
export class CaptureBudget {
  #readBytes = 0;
  #rewrittenBytes = 0;

  read(properties: StoredPeople["properties"]): void {
    this.#readBytes += sizeOfProperties(properties);
    if (this.#readBytes <= READ_BYTES_MAX) return;
    throw tooManyProperties(`have more than ${READ_BYTES_MAX} bytes of properties`);
  }

  /** Call it before the properties are written. */
  rewrite(ctx: TenantCtx, { properties }: PeopleChange): void {
    if (!isCounted(ctx)) return;
    this.#rewrittenBytes += sizeOfProperties(properties.filter(({ version }) => version > 0));
    if (this.#rewrittenBytes <= REWRITTEN_BYTES_MAX) return;
    throw tooManyProperties(`change more than ${REWRITTEN_BYTES_MAX} bytes of stored properties`);
  }
}

const sizeOfProperties = (stored: StoredPeople["properties"]): number =>
  stored.reduce((sum, { properties }) => sum + utf8Length(properties), 0);

function tooManyProperties(reason: string): PurserError {
  return new PurserError("payload_too_large", `The ids of these events ${reason}. Send fewer events at a time.`);
}

type DeviceIds = { environmentId: number; ids: string };
export type DeviceRow = { readonly distinctId: string };

const { environmentId, distinctId } = distinctIds;
/** SQL: whether the id's first stored event was sent with a secret key. Reads one event, because no index has this column. */
const isFirstVerified = () =>
  scalar(
    drizzle
      .select(fields(analyticsEvents, "isVerified"))
      .from(analyticsEvents)
      .where(and(eq(analyticsEvents.environmentId, environmentId), eq(analyticsEvents.distinctId, distinctId)))
      .orderBy(analyticsEvents.seq)
      .limit(1),
  );
/**
 * SQL: whether the id sent events with publishable keys. It has no verified mark, so a sender did: an event of a secret key gives
 * its sender such a mark, unless it is personless.
 */
const isSentByPages = () => or(sql`${distinctIds.isSender} = 1`, sql`${isFirstVerified()} = 0`);

const selectDevices = query((value: ValueOf<DeviceIds>) =>
  drizzle
    .select(fields(distinctIds, "distinctId"))
    .from(distinctIds)
    .where(
      and(
        eq(environmentId, value("environmentId")),
        sql`${distinctId} IN (SELECT value FROM json_each(${value("ids")}))`,
        not(isUserBy(environmentId, distinctId, distinctIds.isVerifiedUser)),
        isSentByPages(),
      ),
    )
    .limit(1),
);

/**
 * Returns a statement that finds a page's device id that these events of a secret key turn into a user (P2, W16). Send it in
 * the batch of the events, before the writes. Empty when no event does that.
 */
function selectDevicesMadeUsers(ctx: TenantCtx, events: readonly CapturedEvent[]): Statement<DeviceRow>[] {
  if (ctx.caller.kind !== "secret") return [];
  const ids = new Set(events.filter((event) => makesUser(event, true)).map((event) => event.distinctId));
  const devices = [...ids].filter(isDeviceForm);
  if (devices.length === 0) return [];
  return [selectDevices({ environmentId: ctx.environment.id, ids: JSON.stringify(devices) })];
}

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
      { events, ...remaining, erasedIds: erasedIdsOf(events, remaining) },
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
export function erasedIdsOf(events: readonly CapturedEvent[], { erased }: Remaining): PeopleChange["ids"] {
  const ofErased = erased.size === 0 ? [] : events.filter(({ distinctId }) => erased.get(distinctId)?.blocks === true);
  if (ofErased.length === 0) return [];
  return planPeople(ofErased, noStoredPeople, false).ids.filter(({ distinctId }) => erased.has(distinctId));
}

type StoredEventsKey = { environmentId: number; events: string; isVerified: number };

/** Of the events [distinct id, UUID], those that are stored, or that a verified event outranks (P4). */
const selectStored = query((value: ValueOf<StoredEventsKey>) => {
  const { environmentId, distinctId, uuid, isVerified } = analyticsEvents;
  return read(
    fields(analyticsEvents, "uuid", "distinctId"),
    (list) => sql`
      SELECT ${list} FROM json_each(${value("events")}) AS i CROSS JOIN ${analyticsEvents}
      WHERE ${environmentId} = ${value("environmentId")} AND ${distinctId} = i.value ->> 0 AND ${uuid} = i.value ->> 1
        AND ${isVerified} >= ${value("isVerified")}`,
  );
});
type StoredEventRow = StatementRow<typeof selectStored>;

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

/**
 * Reads, in one batch, which events are already stored and the data for the plan. Returns the first events, for which the
 * data is complete.
 */
export async function readStoredEvents(
  ctx: TenantCtx,
  events: readonly CapturedEvent[],
  budget: CaptureBudget,
  useReads: readonly Statement<IdUse>[],
) {
  const environmentId = ctx.environment.id;
  const isVerified = Number(ctx.caller.kind === "secret");
  const keys = jsonChunks(events.map(({ distinctId, uuid }) => [distinctId, uuid]));
  const reads: Statement<StoredEventRow | PeopleRow | IdUse>[] = keys.map((chunk) =>
    selectStored({ environmentId, events: chunk, isVerified }),
  );
  const results = await batch(ctx.db, [...reads, ...peopleReads(ctx, events), ...useReads]);
  const storedKeys = new Set<string>();
  const rows: PeopleRow[] = [];
  const uses: IdUse[] = [];
  for (const row of results.flat()) {
    if ("uuid" in row) storedKeys.add(eventKey(row));
    else if ("limits" in row) uses.push(row);
    else rows.push(row);
  }
  const stored = storedPeople(rows);
  budget.read(stored.properties);
  const end = events.findIndex((event) => needsStoredPeople(event) && stored.unread.has(event.distinctId));
  const firstEvents = end === -1 ? events : events.slice(0, end);
  const newEvents = firstEvents.filter((event) => !storedKeys.has(eventKey(event)));
  return { firstEvents, newEvents, stored, uses };
}

function eventWrites(ctx: TenantCtx, events: readonly CapturedEvent[], nowMs: number): Statement[] {
  const aheadMs = ctx.clock === null ? null : nowMs - ctx.realNow();
  const isVerified = Number(ctx.caller.kind === "secret");
  // The properties are JSON inside of JSON, because a text would need an escape for each of its quotes.
  const rows = events.map(({ uuid, event, distinctId, timestampMs, properties }) =>
    jsonListOf([uuid, event, distinctId, timestampMs], properties),
  );
  return jsonChunksOf(rows).map((chunk) =>
    insertEvents({ environmentId: ctx.environment.id, events: chunk, nowMs, aheadMs, isVerified }),
  );
}

/** The results of a request's events, by `eventKey`. */
export interface StoredEvents {
  /** Why an event linked or set nothing. */
  readonly warnings: ReadonlyMap<string, string>;
  /** Why an event was not stored: the reached limit of analytics (L3). */
  readonly drops: ReadonlyMap<string, DropReason>;
  /** The limit of the environment that was reached, or null. After it, no more events of the request are stored. */
  readonly reachedLimit: EnvironmentLimit | null;
}

/** Drops all events, because a limit of the environment is reached. */
export function dropAll(events: readonly CapturedEvent[], reachedLimit: EnvironmentLimit): StoredEvents {
  return { warnings: new Map(), drops: allDropped(events, reachedLimit), reachedLimit };
}

export const allDropped = (events: readonly CapturedEvent[], reason: DropReason): ReadonlyMap<string, DropReason> =>
  new Map(events.map((event) => [eventKey(event), reason]));

/** Returns the events that were dropped because their ids exceed a limit, by `eventKey`. */
export function dropsOf(
  events: readonly CapturedEvent[],
  overLimit: ReadonlyMap<string, AnalyticsLimit>,
): ReadonlyMap<string, AnalyticsLimit> {
  const drops = new Map<string, AnalyticsLimit>();
  for (const event of events) {
    const limit = overLimit.get(event.distinctId);
    if (limit !== undefined) drops.set(eventKey(event), limit);
  }
  return drops;
}
