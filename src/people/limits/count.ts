import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { asInteger, assignments, computed, fields, insertFrom, query, read, type ValueOf } from "../../db/query.ts";
import { analyticsEvents, distinctIds, environments, tombstones } from "../../db/schema.ts";
import type { Statement, StatementRow } from "../../db/sql.ts";
import type { ErasedId } from "../../db/tombstones.ts";
import { analyticsCounts } from "../../db/views.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { isSharedId } from "../claims.ts";
import { isUserBy } from "../user-marks.ts";
import { type AnalyticsLimit, dayOf, isCounted, parseAnalyticsLimits } from "./daily-limits.ts";
import {
  type CountedEvent,
  estimateRecordBytes,
  estimateStoredBytes,
  recordBytes,
  storedBytes,
} from "./stored-bytes.ts";

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
    uses.set(hash, [hash, count + 1, bytes + estimateStoredBytes(event), estimateRecordBytes(event.distinctId)]);
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

const countedIdsOf = (events: readonly CountedEvent[]) => [...new Set(events.map(({ distinctId }) => distinctId))];

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
    added.set(event.distinctId, { events: before.events + 1, bytes: before.bytes + estimateStoredBytes(event) });
  }
  const addedProperties = new Map(ids.map((id) => [id.distinctId, id.writtenPropertiesBytes]));
  const limits = parseAnalyticsLimits(uses[0]?.limits ?? null);
  const overLimit = new Map<string, AnalyticsLimit>();
  for (const use of uses) {
    const addedByEvents = added.get(use.distinctId);
    if (addedByEvents === undefined || isSharedId(use.distinctId)) continue;
    const record = use.isNew ? estimateRecordBytes(use.distinctId) : 0;
    const bytes = use.bytes + addedByEvents.bytes + record + (addedProperties.get(use.distinctId) ?? 0);
    if (use.events + addedByEvents.events > limits.eventsADayOfOneId)
      overLimit.set(use.distinctId, "eventsADayOfOneId");
    else if (bytes > limits.bytesADayOfOneId) overLimit.set(use.distinctId, "bytesADayOfOneId");
  }
  return overLimit;
}
