import { all, statement } from "../../db/sql.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { type AnalyticsLimit, daySql, limitsOf } from "./analytics-limits.ts";
import { isCounted } from "./count.ts";

type DayUse = { readonly limits: string | null; readonly events: number; readonly bytes: number };

const selectDayUse = statement<{ environmentId: number; nowMs: number }, DayUse>`
  SELECT e.analytics_limits AS "limits", coalesce(d.events, 0) AS "events", coalesce(d.bytes, 0) AS "bytes"
  FROM environments AS e LEFT JOIN analytics_days AS d ON d.environment_id = e.id AND d.day = ${daySql}
  WHERE e.id = :environmentId`;

const selectNew = statement<{ environmentId: number; sizes: string }, { events: number; bytes: number }>`
  SELECT count(*) AS "events", coalesce(sum(i.value ->> 1), 0) AS "bytes" FROM json_each(:sizes) AS i
  WHERE NOT EXISTS (SELECT 1 FROM analytics_events WHERE environment_id = :environmentId AND uuid = i.value ->> 0)`;

/** A request that is stored in parts. */
interface Request {
  readonly events: number;
  /** No fewer bytes than its events' properties have. */
  readonly bytesMax: number;
  /** The UUID of each event, and the bytes of its properties. Asked for near a limit alone. */
  readonly sizes: () => readonly (readonly [uuid: string, bytes: number])[];
}

/**
 * The limit of the environment that a request would pass in one of its parts. Null where all that is new of it fits now, and
 * where nothing does: then its first new event is refused as it is stored.
 */
export async function limitAhead(ctx: TenantCtx, { events, bytesMax, sizes }: Request): Promise<AnalyticsLimit | null> {
  if (!isCounted(ctx)) return null;
  const environmentId = ctx.environment.id;
  const [use] = await all(ctx.db, selectDayUse({ environmentId, nowMs: ctx.now() }));
  if (use === undefined) return null;
  const limits = limitsOf(use.limits);
  const room = { events: limits.eventsADay - use.events, bytes: limits.bytesADay - use.bytes };
  if (room.events <= 0 || room.bytes <= 0 || (room.events >= events && room.bytes >= bytesMax)) return null;
  for (const chunk of jsonChunks([...new Map(sizes())])) {
    const [added] = await all(ctx.db, selectNew({ environmentId, sizes: chunk }));
    room.events -= added?.events ?? 0;
    room.bytes -= added?.bytes ?? 0;
  }
  if (room.events < 0) return "eventsADay";
  return room.bytes < 0 ? "bytesADay" : null;
}
