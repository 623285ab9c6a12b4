import { requireEnvironment } from "../../catalog/apps/app.ts";
import { timesOf } from "../../db/clock.ts";
import { batch, statement } from "../../db/sql.ts";
import { assert } from "../../lib/assert.ts";
import { DAY_MS, iso } from "../../lib/time.ts";
import type { Mode, SystemCtx } from "../../runtime.ts";
import { type AnalyticsLimit, daySql, limitsOf } from "./analytics-limits.ts";
import type { LimitsOutput } from "./responses.ts";

const DAYS_SHOWN = 30;

type At = { environmentId: number; nowMs: number };

interface TodayRow {
  readonly stored: string | null;
  readonly day: number;
  readonly events: number;
  readonly bytes: number;
  readonly idEvents: number;
  readonly idBytes: number;
}

interface ReachedRow {
  readonly limit: AnalyticsLimit;
  readonly atMs: number;
}

const selectToday = statement<At, TodayRow>`
  SELECT e.analytics_limits AS "stored", ${daySql} AS "day", coalesce(d.events, 0) AS "events",
    coalesce(d.bytes, 0) AS "bytes", coalesce(d.id_events, 0) AS "idEvents", coalesce(d.id_bytes, 0) AS "idBytes"
  FROM environments AS e LEFT JOIN analytics_days AS d ON d.environment_id = e.id AND d.day = ${daySql}
  WHERE e.id = :environmentId`;

const selectReached = statement<At, ReachedRow>`
  SELECT limit_name AS "limit", reached_at_ms AS "atMs" FROM limits_reached
  WHERE environment_id = :environmentId AND day > ${daySql} - ${String(DAYS_SHOWN)}
  ORDER BY reached_at_ms DESC, limit_name`;

/** The statements that read an environment's limits. */
export const limitReads = (at: At) => [selectToday(at), selectReached(at)] as const;

/** What `limitReads` found, for a response. */
export function presentLimits(
  appId: string,
  mode: Mode,
  today: TodayRow | undefined,
  reached: readonly ReachedRow[],
): LimitsOutput {
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
