import { constraintOf } from "../../db/constraint.ts";
import { fragment, type Statement, statement } from "../../db/sql.ts";
import { jsonChunks } from "../../lib/json.ts";
import { utf8Length } from "../../lib/utf8.ts";
import type { TenantCtx } from "../../runtime.ts";
import { type AnalyticsLimit, daySql, limitSql, limitsOf } from "./analytics-limits.ts";

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

const isFull = (used: string, limit: AnalyticsLimit) => fragment`SELECT 1
  FROM environments AS e CROSS JOIN analytics_days AS d ON d.environment_id = e.id AND d.day = ${daySql}
  WHERE e.id = :environmentId AND d.${used} >= ${limitSql(limit)}`;
const isAnyNew = fragment`SELECT 1 FROM json_each(:uuids) AS i
  WHERE NOT EXISTS (SELECT 1 FROM analytics_events WHERE environment_id = :environmentId AND uuid = i.value)`;

/** Aborts the batch before its work is done, where the day is full and one of the events is new. */
const guardRoom = statement<{ environmentId: number; uuids: string; nowMs: number }>`
  INSERT INTO guards (name, holds)
  SELECT 'events', NOT (EXISTS (${isFull("events", "eventsADay")}) AND EXISTS (${isAnyNew}))
  UNION ALL SELECT 'bytes', NOT (EXISTS (${isFull("bytes", "bytesADay")}) AND EXISTS (${isAnyNew}))`;

/** Of each id, its events that are stored and not counted yet, and their bytes. */
const arrivals = fragment`arrivals AS MATERIALIZED (
  SELECT iif(d.day = ${daySql}, d.day_events, 0) AS events_before, iif(d.day = ${daySql}, d.day_bytes, 0) AS bytes_before,
    coalesce((
      SELECT seq FROM analytics_events WHERE environment_id = :environmentId AND distinct_id = i.value
      ORDER BY seq DESC LIMIT 1
    ), d.event_count, 0) - coalesce(d.event_count, 0) AS events,
    coalesce((
      SELECT sum(octet_length(properties)) FROM analytics_events
      WHERE environment_id = :environmentId AND distinct_id = i.value AND seq > coalesce(d.event_count, 0)
    ), 0) AS bytes
  FROM json_each(:ids) AS i
  LEFT JOIN distinct_ids AS d ON d.environment_id = :environmentId AND d.distinct_id = i.value
)`;

/**
 * Counts the events that the batch stored, by the view whose trigger keeps the limits. It stands after the events, and before
 * the ids are counted.
 */
const countArrivals = statement<{ environmentId: number; ids: string; nowMs: number }>`
  INSERT INTO analytics_counts (environment_id, day, events, bytes, id_events, id_bytes)
  WITH ${arrivals}
  SELECT CAST(:environmentId AS INTEGER), ${daySql}, sum(events), sum(bytes), max(events_before + events),
    max(bytes_before + bytes)
  FROM arrivals WHERE events > 0 HAVING count(*) > 0`;

const insertCount = statement<{ environmentId: number; events: number; bytes: number; nowMs: number }>`
  INSERT INTO analytics_counts (environment_id, day, events, bytes, id_events, id_bytes)
  SELECT CAST(:environmentId AS INTEGER), ${daySql}, CAST(:events AS INTEGER), CAST(:bytes AS INTEGER), 0, 0`;

/** Counts events of erased ids for the environment's day: they are not stored, and an erased id has no record that counts. */
export function erasedCounts(ctx: TenantCtx, events: readonly CountedEvent[], nowMs: number): Statement[] {
  if (events.length === 0) return [];
  const bytes = events.reduce((sum, { properties }) => sum + utf8Length(properties), 0);
  return [insertCount({ environmentId: ctx.environment.id, events: events.length, bytes, nowMs })];
}

export interface IdUse {
  readonly distinctId: string;
  readonly events: number;
  readonly bytes: number;
  /** The environment's limits as they are stored. */
  readonly limits: string | null;
}

const selectIdUse = statement<{ environmentId: number; ids: string; nowMs: number }, IdUse>`
  SELECT i.value AS "distinctId", iif(d.day = ${daySql}, d.day_events, 0) AS "events",
    iif(d.day = ${daySql}, d.day_bytes, 0) AS "bytes", e.analytics_limits AS "limits"
  FROM environments AS e CROSS JOIN json_each(:ids) AS i
  LEFT JOIN distinct_ids AS d ON d.environment_id = :environmentId AND d.distinct_id = i.value
  WHERE e.id = :environmentId`;

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
