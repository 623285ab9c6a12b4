import { and, desc, eq, sql } from "drizzle-orm";
import { requireEnvironment } from "../../catalog/apps/app.ts";
import { timesOf } from "../../db/clock.ts";
import { computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { analyticsDays, environments, limitsReached } from "../../db/schema.ts";
import { batch, type RowsOf } from "../../db/sql.ts";
import { assert } from "../../lib/assert.ts";
import { DAY_MS, iso } from "../../lib/time.ts";
import type { Mode, SystemCtx } from "../../runtime.ts";
import { type AnalyticsLimit, dayOf, limitsOf } from "./analytics-limits.ts";
import type { LimitsOutput } from "./responses.ts";

const DAYS_SHOWN = 30;

type At = { environmentId: number; nowMs: number };

/** The stored limits of an environment, and what was used of them today. */
export const selectToday = query((value: ValueOf<At>) => {
  const { environmentId, day, events, bytes, idEvents, idBytes } = analyticsDays;
  const used = computed({
    day: dayOf(value),
    events: sql<number>`coalesce(${events}, 0)`,
    bytes: sql<number>`coalesce(${bytes}, 0)`,
    idEvents: sql<number>`coalesce(${idEvents}, 0)`,
    idBytes: sql<number>`coalesce(${idBytes}, 0)`,
  });
  return drizzle
    .select({ ...fields(environments, { stored: "analyticsLimits" }), ...used })
    .from(environments)
    .leftJoin(analyticsDays, and(eq(environmentId, environments.id), eq(day, dayOf(value))))
    .where(eq(environments.id, value("environmentId")));
});

const selectReached = query((value: ValueOf<At>) => {
  const { environmentId, day, limitName, reachedAtMs } = limitsReached;
  return drizzle
    .select({
      ...computed({ limit: sql<AnalyticsLimit>`${limitName}` }),
      ...fields(limitsReached, { atMs: "reachedAtMs" }),
    })
    .from(limitsReached)
    .where(and(eq(environmentId, value("environmentId")), sql`${day} > ${dayOf(value)} - ${DAYS_SHOWN}`))
    .orderBy(desc(reachedAtMs), limitName);
});

/** The statements that read an environment's limits. */
export const limitReads = (at: At) => [selectToday(at), selectReached(at)] as const;
type Found = RowsOf<ReturnType<typeof limitReads>>;
type TodayRow = Found[0][number];

/** What `limitReads` found, for a response. */
export function presentLimits(appId: string, mode: Mode, today: TodayRow | undefined, reached: Found[1]): LimitsOutput {
  assert(today !== undefined, "an environment that was found is still there");
  return {
    appId,
    mode,
    analytics: limitsOf(today.stored),
    today: {
      day: iso(today.day * DAY_MS).slice(0, 10),
      events: today.events,
      bytes: today.bytes,
      eventsOfOneId: today.idEvents,
      bytesOfOneId: today.idBytes,
    },
    reached: reached.map(({ limit, atMs }) => ({ limit, at: iso(atMs) })),
  };
}

/** The limits in force, what was used today, and which were met lately. Throws `not_found`. */
export async function readLimits(root: SystemCtx, appId: string, mode: Mode): Promise<LimitsOutput> {
  const { id: environmentId, clock } = await requireEnvironment(root, appId, mode);
  const nowMs = timesOf(clock, root).now();
  const [[today], reached] = await batch(root.db, limitReads({ environmentId, nowMs }));
  return presentLimits(appId, mode, today, reached);
}
