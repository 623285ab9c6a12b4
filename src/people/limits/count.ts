import { and, eq, not, type SQL, sql } from "drizzle-orm";
import { constraintOf } from "../../db/constraint.ts";
import { asInteger, computed, fields, hasRow, insertFrom, query, read, type ValueOf } from "../../db/query.ts";
import { analyticsDays, analyticsEvents, distinctIds, environments } from "../../db/schema.ts";
import type { RowsOf, Statement } from "../../db/sql.ts";
import { analyticsCounts, guards } from "../../db/views.ts";
import { utf8Length } from "../../lib/encoding.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";

/**
 * The limits of an environment's analytics in a UTC day (L3), and their defaults, which no honest client meets. They count
 * what publishable and relay keys send. drizzle/0001_invariants.sql has the defaults too.
 */
export const analyticsDefaults = {
  eventsADay: 1_000_000,
  bytesADay: 1024 ** 3,
  eventsADayOfOneId: 100_000,
  bytesADayOfOneId: 100 * 1024 ** 2,
} as const;

export type AnalyticsLimit = keyof typeof analyticsDefaults;
export type AnalyticsLimits = Readonly<Record<AnalyticsLimit, number>>;

/** The limits in force, by what is stored of them. */
export function limitsOf(stored: string | null): AnalyticsLimits {
  // Written by `setAnalyticsLimits`.
  const set = stored === null ? {} : (JSON.parse(stored) as Partial<AnalyticsLimits>);
  return { ...analyticsDefaults, ...set };
}

/** The limit in force of an environment. */
const limitInForce = (limit: AnalyticsLimit) =>
  sql`coalesce(${environments.analyticsLimits} ->> ${limit}, ${analyticsDefaults[limit]})`;

/** The UTC day of a write or a read, in days since 1970. */
export const dayOf = (value: ValueOf<{ nowMs: number }>) => sql<number>`(${asInteger(value("nowMs"))} / 86400000)`;

/** The constraints of one id's limits: whoever meets one reads which ids these are, and tries again without them. */
export const idLimitConstraints = new Set(["limit_id_events", "limit_id_bytes"] as const);

/** Whether an error of D1 tells of an id's limit. */
export function isIdLimit(error: unknown): boolean {
  const constraint = constraintOf(error);
  return constraint === "limit_id_events" || constraint === "limit_id_bytes";
}

/** The limit of the environment that an error of D1 tells of; null for any other error. */
export function environmentLimitIn(error: unknown): AnalyticsLimit | null {
  const constraint = constraintOf(error);
  if (constraint === "limit_events") return "eventsADay";
  return constraint === "limit_bytes" ? "bytesADay" : null;
}

/** Aborts the batch before its work is done, where the day is full and one of the events is new. */
const guardRoom = query((value: ValueOf<{ environmentId: number; uuids: string; nowMs: number }>) => {
  const isFull = (used: "events" | "bytes", limit: AnalyticsLimit): SQL => sql`EXISTS (
    SELECT 1 FROM ${environments} CROSS JOIN ${analyticsDays}
      ON ${analyticsDays.environmentId} = ${environments.id} AND ${analyticsDays.day} = ${dayOf(value)}
    WHERE ${environments.id} = ${value("environmentId")} AND ${analyticsDays[used]} >= ${limitInForce(limit)})`;
  const { environmentId, uuid } = analyticsEvents;
  const isStored = hasRow(analyticsEvents, and(eq(environmentId, value("environmentId")), eq(uuid, sql`i.value`)));
  const isAnyNew = sql`EXISTS (SELECT 1 FROM sent CROSS JOIN json_each(sent.list) AS i WHERE ${not(isStored)})`;
  const ofEvents = { name: sql`'events'`, holds: sql`NOT (${isFull("events", "eventsADay")} AND ${isAnyNew})` };
  const ofBytes = sql`UNION ALL SELECT 'bytes', NOT (${isFull("bytes", "bytesADay")} AND ${isAnyNew})`;
  return sql`WITH sent (list) AS (SELECT ${value("uuids")}) ${insertFrom(guards, ofEvents, ofBytes)}`;
});

/**
 * Counts the events that the batch stored, by the view whose trigger keeps the limits. It stands after the events, and before
 * the ids are counted.
 */
const countArrivals = query((value: ValueOf<{ environmentId: number; ids: string; nowMs: number }>) => {
  const { day, dayEvents, dayBytes, eventCount } = distinctIds;
  const { seq, properties } = analyticsEvents;
  const ofId = sql`${analyticsEvents.environmentId} = ${value("environmentId")} AND ${analyticsEvents.distinctId} = i.value`;
  // Of each id, what was counted of the day, and its events that are stored and not counted yet.
  const arrivals = sql`
    SELECT iif(${day} = ${dayOf(value)}, ${dayEvents}, 0), iif(${day} = ${dayOf(value)}, ${dayBytes}, 0),
      coalesce((
        SELECT ${seq} FROM ${analyticsEvents} WHERE ${ofId} ORDER BY ${seq} DESC LIMIT 1
      ), ${eventCount}, 0) - coalesce(${eventCount}, 0),
      coalesce((
        SELECT sum(octet_length(${properties})) FROM ${analyticsEvents}
        WHERE ${ofId} AND ${seq} > coalesce(${eventCount}, 0)
      ), 0)
    FROM json_each(${value("ids")}) AS i
    LEFT JOIN ${distinctIds} ON ${distinctIds.environmentId} = ${value("environmentId")} AND ${distinctIds.distinctId} = i.value`;
  const counts = {
    environmentId: asInteger(value("environmentId")),
    day: dayOf(value),
    events: sql`sum(arrived)`,
    bytes: sql`sum(size)`,
    idEvents: sql`max(arrived_before + arrived)`,
    idBytes: sql`max(size_before + size)`,
  };
  return sql`
    WITH arrivals (arrived_before, size_before, arrived, size) AS MATERIALIZED (${arrivals})
    ${insertFrom(analyticsCounts, counts, sql`FROM arrivals WHERE arrived > 0 HAVING count(*) > 0`)}`;
});

const insertCount = query((value: ValueOf<{ environmentId: number; events: number; bytes: number; nowMs: number }>) => {
  const counts = {
    environmentId: asInteger(value("environmentId")),
    day: dayOf(value),
    events: asInteger(value("events")),
    bytes: asInteger(value("bytes")),
    idEvents: sql`0`,
    idBytes: sql`0`,
  };
  return insertFrom(analyticsCounts, counts, sql``);
});

/** Counts events of erased ids for the environment's day: they are not stored, and an erased id has no record that counts. */
export function erasedCounts(ctx: TenantCtx, events: readonly CountedEvent[], nowMs: number): Statement[] {
  if (events.length === 0) return [];
  const bytes = events.reduce((sum, { properties }) => sum + utf8Length(properties), 0);
  return [insertCount({ environmentId: ctx.environment.id, events: events.length, bytes, nowMs })];
}

/** What an id sent today, and the environment's limits as they are stored. */
const selectIdUse = query((value: ValueOf<{ environmentId: number; ids: string; nowMs: number }>) => {
  const { day, dayEvents, dayBytes } = distinctIds;
  const use = computed({
    distinctId: sql<string>`i.value`,
    events: sql<number>`iif(${day} = ${dayOf(value)}, ${dayEvents}, 0)`,
    bytes: sql<number>`iif(${day} = ${dayOf(value)}, ${dayBytes}, 0)`,
  });
  return read(
    { ...use, ...fields(environments, { limits: "analyticsLimits" }) },
    (list) => sql`
    SELECT ${list} FROM ${environments} CROSS JOIN json_each(${value("ids")}) AS i
    LEFT JOIN ${distinctIds} ON ${distinctIds.environmentId} = ${value("environmentId")} AND ${distinctIds.distinctId} = i.value
    WHERE ${environments.id} = ${value("environmentId")}`,
  );
});
export type IdUse = RowsOf<[ReturnType<typeof selectIdUse>]>[0][number];

/** The parts of an event that are counted. */
export interface CountedEvent {
  readonly uuid: string;
  readonly distinctId: string;
  /** JSON. */
  readonly properties: string;
}

/** Whether what the caller sends is counted: what a publishable or a relay key sends is. */
export const isCounted = ({ caller }: TenantCtx): boolean => caller.kind !== "secret";

const idsOf = (events: readonly CountedEvent[]) => [...new Set(events.map(({ distinctId }) => distinctId))];

/** The statements that come before the events of a batch. */
export function roomGuards(ctx: TenantCtx, events: readonly CountedEvent[], nowMs: number): Statement[] {
  if (!isCounted(ctx)) return [];
  const environmentId = ctx.environment.id;
  return jsonChunks(events.map(({ uuid }) => uuid)).map((uuids) => guardRoom({ environmentId, uuids, nowMs }));
}

/** The statements that come after the events of a batch, and before the ids are counted. */
export function dayCounts(ctx: TenantCtx, events: readonly CountedEvent[], nowMs: number): Statement[] {
  if (!isCounted(ctx)) return [];
  const environmentId = ctx.environment.id;
  return jsonChunks(idsOf(events)).map((ids) => countArrivals({ environmentId, ids, nowMs }));
}

/** Reads what the ids of some events sent today. */
export function idUseReads(ctx: TenantCtx, events: readonly CountedEvent[], nowMs: number): Statement<IdUse>[] {
  const environmentId = ctx.environment.id;
  return jsonChunks(idsOf(events)).map((ids) => selectIdUse({ environmentId, ids, nowMs }));
}

/** The ids that these events would bring over a limit, each with that limit. All events are new. */
export function idsOverLimit(
  uses: readonly IdUse[],
  events: readonly CountedEvent[],
): ReadonlyMap<string, AnalyticsLimit> {
  const added = new Map<string, { events: number; bytes: number }>();
  for (const { distinctId, properties } of events) {
    const before = added.get(distinctId) ?? { events: 0, bytes: 0 };
    added.set(distinctId, { events: before.events + 1, bytes: before.bytes + utf8Length(properties) });
  }
  const limits = limitsOf(uses[0]?.limits ?? null);
  const over = new Map<string, AnalyticsLimit>();
  for (const use of uses) {
    const more = added.get(use.distinctId);
    if (more === undefined) continue;
    if (use.events + more.events > limits.eventsADayOfOneId) over.set(use.distinctId, "eventsADayOfOneId");
    else if (use.bytes + more.bytes > limits.bytesADayOfOneId) over.set(use.distinctId, "bytesADayOfOneId");
  }
  return over;
}
