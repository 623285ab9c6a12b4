import { and, eq, not, type Placeholder, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { constraintOf } from "../../db/attempt.ts";
import {
  asInteger,
  assignments,
  computed,
  fields,
  hasRow,
  insertFrom,
  names,
  query,
  read,
  type ValueOf,
} from "../../db/query.ts";
import {
  analyticsDays,
  analyticsEvents,
  databaseSize,
  distinctIds,
  environments,
  tombstones,
} from "../../db/schema.ts";
import type { Statement, StatementRow } from "../../db/sql.ts";
import type { ErasedId } from "../../db/tombstones.ts";
import { analyticsCounts, guards } from "../../db/views.ts";
import { utf8Length } from "../../lib/encoding.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { isSharedId } from "../claims.ts";
import { isUserBy } from "../user-marks.ts";

/**
 * The default limits of an environment's analytics in a UTC day (L3). No honest client reaches them. They apply to events from
 * publishable and relay keys. drizzle/0001_invariants.sql repeats them.
 */
export const analyticsDefaults = {
  eventsADay: 1_000_000,
  bytesADay: 1024 ** 3,
  eventsADayOfOneId: 100_000,
  bytesADayOfOneId: 100 * 1024 ** 2,
} as const;

export type AnalyticsLimit = keyof typeof analyticsDefaults;
export type AnalyticsLimits = Readonly<Record<AnalyticsLimit, number>>;
/** A limit of a whole environment: a daily limit, or the space for analytics in the database. */
export type EnvironmentLimit = "eventsADay" | "bytesADay" | "databaseBytes";
/** A limit that can be reached. `claims`: an id's claims (L1). */
export type ReachedLimit = AnalyticsLimit | EnvironmentLimit | "claims";
/** Why an event was dropped. `day`: a limit of the day was reached, so no answer depends on the ids of its events. */
export type DropReason = AnalyticsLimit | EnvironmentLimit | "day";

/** The share of the day's limits that ids without a verified mark may fill. drizzle/0001_invariants.sql repeats it. */
export const UNMARKED_SHARE = 3 / 4;

/** The fixed bytes of a stored event and of an id's record, without their texts. */
export const EVENT_BYTES = 400;
const RECORD_BYTES = 600;

/** Returns the stored bytes of an event. Its id counts twice, because an index has it too. */
export const storedBytesOf = ({ distinctId, event, properties }: CountedEvent): number =>
  EVENT_BYTES + 2 * utf8Length(distinctId) + utf8Length(event) + utf8Length(properties);
/** Returns the bytes of an id's record. */
export const recordBytesOf = (distinctId: string): number => RECORD_BYTES + 3 * utf8Length(distinctId);

/** SQL: the stored bytes of a row of `analyticsEvents`. */
export const storedBytes = () => {
  const { distinctId, event, properties } = analyticsEvents;
  return sql`(${EVENT_BYTES} + 2 * octet_length(${distinctId}) + octet_length(${event}) + octet_length(${properties}))`;
};
/** SQL: the bytes of an id's record. */
export const recordBytes = (distinctId: SQL) => sql`(${RECORD_BYTES} + 3 * octet_length(${distinctId}))`;

/** Returns the limits in force, from the stored setting. */
export function analyticsLimitsOf(stored: string | null): AnalyticsLimits {
  // `setLimits` wrote this JSON.
  const limits = stored === null ? {} : (JSON.parse(stored) as Partial<AnalyticsLimits>);
  return { ...analyticsDefaults, ...limits };
}

/** SQL: a limit in force of an environment. */
const limitInForce = (limit: AnalyticsLimit) =>
  sql`coalesce(${environments.analyticsLimits} ->> ${limit}, ${analyticsDefaults[limit]})`;

/** SQL: the UTC day of a real time, in days since 1970. The limits use real time even with a test clock (D3). */
export const dayOf = (value: ValueOf<{ dayMs: number }>) => sql<number>`(${asInteger(value("dayMs"))} / 86400000)`;

/** Returns whether a D1 error reports an id's limit. */
export function isIdLimit(error: unknown): boolean {
  const constraint = constraintOf(error);
  return constraint === "limit_id_events" || constraint === "limit_id_bytes";
}

/**
 * Returns whether a D1 error reports that ids without a verified mark fill their share of the day, and the limit that was reached by
 * this batch. Null for any other error.
 */
export function shareLimitIn(error: unknown): { readonly reached: EnvironmentLimit | null } | null {
  const constraint = constraintOf(error);
  if (constraint === "limit_share") return { reached: null };
  if (constraint === "limit_unmarked_events") return { reached: "eventsADay" };
  return constraint === "limit_unmarked_bytes" ? { reached: "bytesADay" } : null;
}

/** Returns the limit of the environment or the database that a D1 error reports. Null for any other error. */
export function environmentLimitIn(error: unknown): EnvironmentLimit | null {
  const constraint = constraintOf(error);
  if (constraint === "limit_space") return "databaseBytes";
  if (constraint === "limit_events") return "eventsADay";
  return constraint === "limit_bytes" ? "bytesADay" : null;
}

/** Above this share of the database's size, analytics are not stored, so that the rest is left for the books (L3). */
export const SHARE_OF_PUBLIC_KEYS = 0.8;
export const SHARE_OF_SECRET_KEYS = 0.95;

/** SQL: whether a limit of the environment was reached today, and its limits were not changed since. */
const isReachedToday = () => sql`${analyticsDays.reachedLimits} IS coalesce(${environments.analyticsLimits}, '')`;

type SpaceValues = {
  environmentId: number;
  /** [distinct id, UUID] of each event. */
  events: string;
  dayMs: number;
  isCounted: number;
  isShareFull: number;
  bytesMax: number;
};

/**
 * Aborts the batch at its beginning if the database or the day is full and one of the events is new, and, unless `isShareFull`, if a
 * limit was reached today.
 */
const guardSpace = query((value: ValueOf<SpaceValues>) => {
  const ofEnvironment = sql`${value("isCounted")} AND ${environments.id} = ${value("environmentId")}`;
  const ofDay = and(eq(analyticsDays.environmentId, environments.id), eq(analyticsDays.day, dayOf(value)));
  const full = sql`
    SELECT CASE WHEN ${databaseSize.bytes} - ${databaseSize.freedBytes} >= ${value("bytesMax")} THEN 'space'
      WHEN ${value("isShareFull")} = 0 AND ${isReachedToday()} THEN 'share'
      WHEN ${analyticsDays.events} >= ${limitInForce("eventsADay")} THEN 'events'
      WHEN ${analyticsDays.bytes} >= ${limitInForce("bytesADay")} THEN 'bytes' END AS limited_by
    FROM ${databaseSize} LEFT JOIN ${environments} ON ${ofEnvironment} LEFT JOIN ${analyticsDays} ON ${ofDay}
    WHERE ${databaseSize.id} = 1`;
  const isStored = isStoredEvent(value("environmentId"), sql`i.value ->> 0`, sql`i.value ->> 1`);
  const isAnyNew = sql`EXISTS (SELECT 1 FROM json_each(${value("events")}) AS i WHERE ${not(isStored)})`;
  return insertFrom(
    guards,
    { name: sql`space.limited_by`, holds: sql`0` },
    sql`FROM (${full}) AS space WHERE space.limited_by = 'share' OR (space.limited_by IS NOT NULL AND ${isAnyNew})`,
  );
});

/** SQL: whether an event with this id and UUID is stored, verified or not. */
export const isStoredEvent = (environmentId: SQL | Placeholder, distinctId: SQL, uuid: SQL): SQL =>
  hasRow(
    analyticsEvents,
    and(
      sql`${analyticsEvents.environmentId} = ${environmentId}`,
      sql`${analyticsEvents.distinctId} = ${distinctId}`,
      sql`${analyticsEvents.uuid} = ${uuid}`,
    ),
  );

/** An id whose record a batch writes, and how many bytes of its properties the batch writes. */
export interface RecordedId {
  readonly distinctId: string;
  readonly writtenPropertiesBytes: number;
}

/**
 * Counts the stored events, by the view whose trigger enforces the limits. Send it after the statements that insert the events, and
 * before those that count the events in the ids' records.
 */
const countArrivals = query((value: ValueOf<IdsOfDay & { erased: string; isShareFull: number }>) => {
  const { day, dayEvents, dayBytes, eventCount } = distinctIds;
  const { seq } = analyticsEvents;
  const name = sql`(i.value ->> 0)`;
  const ofId = sql`${analyticsEvents.environmentId} = ${value("environmentId")} AND ${analyticsEvents.distinctId} = ${name}`;
  const isMarked = isUserBy(value("environmentId"), name, distinctIds.isVerifiedUser);
  // For each id: today's counts so far, its stored events that are not counted yet, and its record if it is new.
  const arrivals = sql`
    SELECT i.value ->> 2, NOT i.value ->> 2 AND ${isMarked}, iif(${day} = ${dayOf(value)}, ${dayEvents}, 0), iif(${day} = ${dayOf(value)}, ${dayBytes}, 0),
      coalesce((
        SELECT ${seq} FROM ${analyticsEvents} WHERE ${ofId} ORDER BY ${seq} DESC LIMIT 1
      ), ${eventCount}, 0) - coalesce(${eventCount}, 0),
      coalesce((
        SELECT sum(${storedBytes()}) FROM ${analyticsEvents} WHERE ${ofId} AND ${seq} > coalesce(${eventCount}, 0)
      ), 0) + (i.value ->> 1) + iif(${eventCount} IS NULL, ${recordBytes(name)}, 0)
    FROM json_each(${value("ids")}) AS i
    LEFT JOIN ${distinctIds} ON ${distinctIds.environmentId} = ${value("environmentId")} AND ${distinctIds.distinctId} = ${name}
    UNION ALL
    SELECT 0, 0, iif(${tombstones.day} = ${dayOf(value)}, ${tombstones.dayEvents}, 0),
      iif(${tombstones.day} = ${dayOf(value)}, ${tombstones.dayBytes}, 0),
      i.value ->> 1, (i.value ->> 2) + iif(${tombstones.day} IS NULL, i.value ->> 3, 0)
    FROM json_each(${value("erased")}) AS i
    CROSS JOIN ${tombstones} ON ${tombstones.environmentId} = ${value("environmentId")} AND ${tombstones.hash} = i.value ->> 0`;
  const counts = {
    environmentId: asInteger(value("environmentId")),
    day: dayOf(value),
    events: sql`sum(arrived)`,
    bytes: sql`sum(size)`,
    unmarkedEvents: sql`sum(iif(is_marked OR ${value("isShareFull")}, 0, arrived))`,
    unmarkedBytes: sql`sum(iif(is_marked OR ${value("isShareFull")}, 0, size))`,
    idEvents: sql`max(iif(arrived > 0 AND NOT is_shared, arrived_before + arrived, 0))`,
    idBytes: sql`max(iif(arrived > 0 AND NOT is_shared, size_before + size, 0))`,
    consents: sql`0`,
    isShareFull: sql`${value("isShareFull")}`,
  };
  return sql`
    WITH arrivals (is_shared, is_marked, arrived_before, size_before, arrived, size) AS MATERIALIZED (${arrivals})
    ${insertFrom(analyticsCounts, counts, sql`FROM arrivals WHERE arrived > 0 OR size > 0 HAVING count(*) > 0`)}`;
});

/** The events of an erased id in a batch: its tombstone's hash, their number and bytes, and the bytes of a new id's record. */
type ErasedUse = readonly [hash: string, events: number, bytes: number, recordBytes: number];

/** Returns what a batch's events of erased ids count as. They count like those of ids that were never seen (E4). */
function erasedUses({ events, erased, erasedIds }: ArrivingEvents): ErasedUse[] {
  const uses = new Map<string, ErasedUse>();
  const propertiesBytes = new Map(erasedIds.map((id) => [id.distinctId, id.writtenPropertiesBytes]));
  for (const event of events) {
    const { hash, blocks } = erased.get(event.distinctId) ?? { hash: "", blocks: false };
    if (!blocks) continue;
    const [, count, bytes] = uses.get(hash) ?? [hash, 0, propertiesBytes.get(event.distinctId) ?? 0];
    uses.set(hash, [hash, count + 1, bytes + storedBytesOf(event), recordBytesOf(event.distinctId)]);
  }
  return [...uses.values()];
}

/** Counts the day's events of erased ids at their tombstones. */
const countAtTombstones = query((value: ValueOf<{ environmentId: number; erased: string; dayMs: number }>) => {
  const { environmentId, hash, day, dayEvents, dayBytes } = tombstones;
  const ofDay = (column: SQLiteColumn, more: SQL) => sql`iif(${day} = ${dayOf(value)}, ${column}, 0) + ${more}`;
  const changed = {
    dayEvents: ofDay(dayEvents, sql`(i.value ->> 1)`),
    dayBytes: ofDay(dayBytes, sql`(i.value ->> 2) + iif(${day} IS NULL, i.value ->> 3, 0)`),
    day: dayOf(value),
  };
  return sql`
    UPDATE ${tombstones} SET ${assignments(tombstones, changed)} FROM json_each(${value("erased")}) AS i
    WHERE ${environmentId} = ${value("environmentId")} AND ${hash} = i.value ->> 0`;
});

/** Of some ids, those with a verified mark. */
const selectMarkedIds = query((value: ValueOf<{ environmentId: number; ids: string }>) => {
  const ofId = sql`${distinctIds.environmentId} = ${value("environmentId")} AND ${distinctIds.distinctId} = i.value`;
  return read(
    computed({ markedId: sql<string>`i.value` }),
    (list) => sql`
      SELECT ${list} FROM json_each(${value("ids")}) AS i LEFT JOIN ${distinctIds} ON ${ofId}
      WHERE ${isUserBy(value("environmentId"), sql`i.value`, distinctIds.isVerifiedUser)}`,
  );
});
type MarkedId = StatementRow<typeof selectMarkedIds>;

/**
 * Returns the statements that find which ids of some events have a verified mark: one that no publishable or relay key can set (P2).
 * A shared id has none.
 */
export function markedReads(ctx: TenantCtx, events: readonly CountedEvent[]): Statement<MarkedId>[] {
  const ids = countedIdsOf(events).filter((id) => !isSharedId(id));
  return jsonChunks(ids).map((chunk) => selectMarkedIds({ environmentId: ctx.environment.id, ids: chunk }));
}

type IdsOfDay = { environmentId: number; ids: string; dayMs: number };
type ErasedIds = ReadonlyMap<string, ErasedId>;

/** The events of a batch, and the erased ids among theirs. */
interface ArrivingEvents {
  readonly events: readonly CountedEvent[];
  readonly erased: ErasedIds;
  /** The records that events of blocked ids would write if the ids had never been seen. */
  readonly erasedIds: readonly RecordedId[];
}

/** Of ids [distinct id, its tombstone's hash]: their counts of today, and the environment's stored limits. */
const selectIdUse = query((value: ValueOf<IdsOfDay>) => {
  const { day, dayEvents, dayBytes, eventCount } = distinctIds;
  const ofDay = (column: SQL | SQLiteColumn, erased: SQL | SQLiteColumn) =>
    sql<number>`iif(${day} = ${dayOf(value)}, ${column}, 0) + iif(${tombstones.day} = ${dayOf(value)}, ${erased}, 0)`;
  const use = computed({
    isNew: sql`${eventCount} IS NULL AND ${tombstones.day} IS NULL`.mapWith(Boolean),
    distinctId: sql<string>`(i.value ->> 0)`,
    events: ofDay(sql`coalesce(${dayEvents}, 0)`, tombstones.dayEvents),
    bytes: ofDay(sql`coalesce(${dayBytes}, 0)`, tombstones.dayBytes),
  });
  return read(
    { ...use, ...fields(environments, { limits: "analyticsLimits" }) },
    (list) => sql`
    SELECT ${list} FROM ${environments} CROSS JOIN json_each(${value("ids")}) AS i
    LEFT JOIN ${distinctIds} ON ${distinctIds.environmentId} = ${value("environmentId")} AND ${distinctIds.distinctId} = i.value ->> 0
    LEFT JOIN ${tombstones} ON ${tombstones.environmentId} = ${value("environmentId")} AND ${tombstones.hash} = i.value ->> 1
      AND ${tombstones.blocks} = 1
    WHERE ${environments.id} = ${value("environmentId")}`,
  );
});
export type IdUse = StatementRow<typeof selectIdUse>;

/** The parts of an event that are counted. */
export interface CountedEvent {
  readonly uuid: string;
  readonly distinctId: string;
  readonly event: string;
  /** JSON. */
  readonly properties: string;
}

/** Returns whether the caller's events are counted. This is so for publishable and relay keys. */
export const isCounted = ({ caller }: TenantCtx): boolean => caller.kind !== "secret";

const countedIdsOf = (events: readonly CountedEvent[]) => [...new Set(events.map(({ distinctId }) => distinctId))];

/**
 * Returns the guards of a batch, which come before its events. `isShareFull`: it is known that a limit was reached today, so the batch
 * has only events of ids with a verified mark.
 */
export function spaceGuards(
  ctx: TenantCtx,
  events: readonly CountedEvent[],
  dayMs: number,
  isShareFull: boolean,
): Statement[] {
  const share = isCounted(ctx) ? SHARE_OF_PUBLIC_KEYS : SHARE_OF_SECRET_KEYS;
  const values = {
    environmentId: ctx.environment.id,
    dayMs,
    isCounted: Number(isCounted(ctx)),
    isShareFull: Number(isShareFull),
    bytesMax: Math.floor(share * ctx.settings.databaseBytesMax),
  };
  const chunks = jsonChunks(events.map(({ distinctId, uuid }) => [distinctId, uuid]));
  // Also a batch without events tells that a limit was reached.
  return (chunks.length === 0 ? ["[]"] : chunks).map((chunk) => guardSpace({ ...values, events: chunk }));
}

/**
 * Returns the statements that come after the events of a batch, and before the statements that write the records of these
 * ids.
 */
export function dayCounts(
  ctx: TenantCtx,
  ids: readonly RecordedId[],
  arriving: ArrivingEvents,
  dayMs: number,
  isShareFull: boolean,
): Statement[] {
  if (!isCounted(ctx)) return [];
  const rows = ids.map(({ distinctId, writtenPropertiesBytes }) => [
    ...[distinctId, writtenPropertiesBytes, Number(isSharedId(distinctId))],
  ]);
  const environmentId = ctx.environment.id;
  const values = { environmentId, dayMs, isShareFull: Number(isShareFull) };
  const uses = erasedUses(arriving);
  const chunks = jsonChunks(rows);
  const erasedChunks = jsonChunks(uses);
  const counted = Array.from({ length: Math.max(chunks.length, erasedChunks.length) }, (_, index) =>
    countArrivals({ ...values, ids: chunks[index] ?? "[]", erased: erasedChunks[index] ?? "[]" }),
  );
  return [...counted, ...erasedChunks.map((chunk) => countAtTombstones({ environmentId, dayMs, erased: chunk }))];
}

const markReached = query((value: ValueOf<{ environmentId: number; dayMs: number }>) => {
  const { environmentId, day, reachedLimits } = analyticsDays;
  const none = { events: sql`0`, bytes: sql`0`, unmarkedEvents: sql`0`, unmarkedBytes: sql`0`, idEvents: sql`0` };
  const row = {
    ...none,
    environmentId: environments.id,
    day: dayOf(value),
    reachedLimits: sql`coalesce(${environments.analyticsLimits}, '')`,
    idBytes: sql`0`,
    consents: sql`0`,
  };
  const now = sql`excluded.${names(reachedLimits)}`;
  return sql`${insertFrom(analyticsDays, row, sql`FROM ${environments} WHERE ${environments.id} = ${value("environmentId")}`)}
    ON CONFLICT (${names(environmentId, day)}) DO UPDATE SET ${assignments(analyticsDays, { reachedLimits: now })}
    WHERE ${reachedLimits} IS NOT ${now}`;
});

/** Returns the statements that remember that a daily limit of the environment was reached. Its later answers say so. */
export function markDayReached(ctx: TenantCtx, limit: ReachedLimit, dayMs: number): Statement[] {
  const isOfDay = limit === "eventsADay" || limit === "bytesADay";
  return isOfDay ? [markReached({ environmentId: ctx.environment.id, dayMs })] : [];
}

/** Returns the statements that read today's counts of the ids of some events. */
export function idUseReads(
  ctx: TenantCtx,
  events: readonly CountedEvent[],
  erased: ErasedIds,
  dayMs: number,
): Statement<IdUse>[] {
  const environmentId = ctx.environment.id;
  return jsonChunks(countedIdsOf(events).map((id) => [id, erased.get(id)?.hash ?? null])).map((ids) =>
    selectIdUse({ environmentId, ids, dayMs }),
  );
}

/**
 * Returns the ids that would exceed a limit by these new events, each with that limit. `ids` are their records. Shared ids
 * have no limit.
 */
export function idsOverLimit(
  uses: readonly IdUse[],
  events: readonly CountedEvent[],
  ids: readonly RecordedId[],
): ReadonlyMap<string, AnalyticsLimit> {
  const added = new Map<string, { events: number; bytes: number }>();
  for (const event of events) {
    const before = added.get(event.distinctId) ?? { events: 0, bytes: 0 };
    added.set(event.distinctId, { events: before.events + 1, bytes: before.bytes + storedBytesOf(event) });
  }
  const addedProperties = new Map(ids.map((id) => [id.distinctId, id.writtenPropertiesBytes]));
  const limits = analyticsLimitsOf(uses[0]?.limits ?? null);
  const overLimit = new Map<string, AnalyticsLimit>();
  for (const use of uses) {
    const addedByEvents = added.get(use.distinctId);
    if (addedByEvents === undefined || isSharedId(use.distinctId)) continue;
    const record = use.isNew ? recordBytesOf(use.distinctId) : 0;
    const bytes = use.bytes + addedByEvents.bytes + record + (addedProperties.get(use.distinctId) ?? 0);
    if (use.events + addedByEvents.events > limits.eventsADayOfOneId)
      overLimit.set(use.distinctId, "eventsADayOfOneId");
    else if (bytes > limits.bytesADayOfOneId) overLimit.set(use.distinctId, "bytesADayOfOneId");
  }
  return overLimit;
}
