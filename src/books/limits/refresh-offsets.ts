import { and, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { asInteger, assignments, computed, names, query, read, type ValueOf } from "../../db/query.ts";
import { environments, usageLimits } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { offsetMsAt } from "../../lib/time-zone.ts";
import type { CronCtx, CronPart } from "../../runtime.ts";
import { snapshotWithLimits } from "./limits.ts";

const { timeZone, utcOffsetMs, environmentId, isDeleted } = usageLimits;
/** The condition of the partial index, without bound values. */
const hasZone = sql`${isDeleted} = 0 AND ${timeZone} <> 'UTC'`;
const limitsOfZones = sql`${usageLimits} INDEXED BY usage_limits_zone WHERE ${hasZone}`;

/** Selects the zones of all limits, each with its lowest and its highest stored offset. Reads five rows for each zone. */
const selectZones = query(() => {
  const zone = alias(usageLimits, "zone");
  const next = (after: SQL | SQLiteColumn) =>
    sql`(SELECT ${timeZone} FROM ${limitsOfZones} AND ${timeZone} > ${after} ORDER BY ${timeZone} LIMIT 1)`;
  const offset = (order: "ASC" | "DESC") => sql<number>`(
    SELECT ${utcOffsetMs} FROM ${limitsOfZones} AND ${timeZone} = ${zone.timeZone}
    ORDER BY ${utcOffsetMs} ${order === "ASC" ? sql`ASC` : sql`DESC`} LIMIT 1
  )`;
  return read(
    computed({ timeZone: sql<string>`${zone.timeZone}`, lowestMs: offset("ASC"), highestMs: offset("DESC") }),
    (list) => sql`
      WITH RECURSIVE ${zone} (${names(timeZone)}) AS (
        SELECT ${next(sql`''`)}
        UNION ALL SELECT ${next(zone.timeZone)}
        FROM ${zone} WHERE ${zone.timeZone} IS NOT NULL
      )
      SELECT ${list} FROM ${zone} WHERE ${zone.timeZone} IS NOT NULL`,
  );
});

const ENVIRONMENTS_A_STEP = 100;
const OFFSET_QUERIES_A_STEP = 3;

type StaleOffset = { timeZone: string; staleMs: number };
const isStale = (value: ValueOf<StaleOffset>) =>
  and(hasZone, sql`${timeZone} = ${value("timeZone")}`, sql`${utcOffsetMs} = ${asInteger(value("staleMs"))}`);

const selectStale = query((value: ValueOf<StaleOffset>) =>
  read(
    computed({ id: sql<number>`${environmentId}` }),
    (list) => sql`
      SELECT DISTINCT ${list} FROM ${usageLimits} INDEXED BY usage_limits_zone WHERE ${isStale(value)}
      LIMIT ${ENVIRONMENTS_A_STEP}`,
  ),
);

type StaleEnvironments = { environmentIds: string };
const isListed = (value: ValueOf<StaleEnvironments>) =>
  sql`IN (SELECT value FROM json_each(${value("environmentIds")}))`;
const updateOffset = query((value: ValueOf<StaleOffset & StaleEnvironments & { knownMs: number }>) => {
  const set = assignments(usageLimits, { utcOffsetMs: asInteger(value("knownMs")) });
  return sql`UPDATE ${usageLimits} SET ${set} WHERE ${environmentId} ${isListed(value)} AND ${isStale(value)}`;
});
const syncLimitsOfMany = query((value: ValueOf<StaleEnvironments>) => {
  const set = assignments(environments, { settingsSnapshot: snapshotWithLimits() });
  return sql`UPDATE ${environments} SET ${set} WHERE ${environments.id} ${isListed(value)}`;
});

/**
 * Stores the present offset of each zone with its limits, so that a zone that the runtime no longer knows is read at its last known
 * one (TZ1). Changes something only if a zone's clocks have changed since the last run.
 */
export async function refreshOffsets({ db, now, allowance }: CronCtx): Promise<readonly unknown[]> {
  if (!allowance.has(1)) return [];
  for (const { timeZone, lowestMs, highestMs } of await all(db, selectZones({}))) {
    for (const staleMs of new Set([lowestMs, highestMs])) {
      const knownMs = offsetMsAt({ timeZone, utcOffsetMs: staleMs }, now());
      if (knownMs === staleMs) continue;
      for (let isLast = false; !isLast; ) {
        if (!allowance.has(OFFSET_QUERIES_A_STEP)) return [];
        const stale = await all(db, selectStale({ timeZone, staleMs }));
        isLast = stale.length < ENVIRONMENTS_A_STEP;
        if (stale.length === 0) continue;
        const environmentIds = JSON.stringify(stale.map(({ id }) => id));
        await batch(db, [
          updateOffset({ timeZone, staleMs, knownMs, environmentIds }),
          syncLimitsOfMany({ environmentIds }),
        ]);
      }
    }
  }
  return [];
}

export const offsetsPart: CronPart = {
  code: "offsets_not_refreshed",
  weight: 1,
  queriesOfStep: OFFSET_QUERIES_A_STEP,
  work: refreshOffsets,
};
