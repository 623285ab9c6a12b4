import { and, eq, not, type Placeholder, type SQL, sql } from "drizzle-orm";
import { assignments, hasRow, insertFrom, names, query, type ValueOf } from "../../db/query.ts";
import { analyticsDays, analyticsEvents, databaseSize, environments } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { guards } from "../../db/views.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { dayOf, isCounted, limitInForce, type ReachedLimit } from "./daily-limits.ts";
import type { CountedEvent } from "./stored-bytes.ts";

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
