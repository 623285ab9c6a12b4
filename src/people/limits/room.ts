import { and, eq, not, sql } from "drizzle-orm";
import { computed, hasRow, query, read, type ValueOf } from "../../db/query.ts";
import { analyticsEvents } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { type AnalyticsLimit, limitsOf } from "./analytics-limits.ts";
import { isCounted } from "./count.ts";
import { selectToday } from "./read.ts";

const selectNew = query((value: ValueOf<{ environmentId: number; sizes: string }>) => {
  const { environmentId, uuid } = analyticsEvents;
  const isStored = hasRow(
    analyticsEvents,
    and(eq(environmentId, value("environmentId")), eq(uuid, sql`i.value ->> 0`)),
  );
  return read(
    computed({ events: sql<number>`count(*)`, bytes: sql<number>`coalesce(sum(i.value ->> 1), 0)` }),
    (list) => sql`SELECT ${list} FROM json_each(${value("sizes")}) AS i WHERE ${not(isStored)}`,
  );
});

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
  const [use] = await all(ctx.db, selectToday({ environmentId, nowMs: ctx.now() }));
  if (use === undefined) return null;
  const limits = limitsOf(use.stored);
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
