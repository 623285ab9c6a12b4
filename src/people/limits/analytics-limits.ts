import { and, desc, eq, not, sql } from "drizzle-orm";
import { requireEnvironment } from "../../catalog/apps.ts";
import { type AuditEntryKey, auditEntryIsLatest, insertAuditEntry, newAuditEntry } from "../../catalog/audit.ts";
import { computed, drizzle, fields, hasRow, query, read, type ValueOf } from "../../db/query.ts";
import { analyticsDays, databaseSize, distinctIds, environments, limitsReached } from "../../db/schema.ts";
import { all, batch, type RowsOf } from "../../db/sql.ts";
import { assert } from "../../errors.ts";
import { jsonChunks } from "../../lib/json.ts";
import { DAY_MS, iso } from "../../lib/time.ts";
import type { AdminCtx, CronCtx, CronPart, Mode, SystemCtx, TenantCtx } from "../../runtime.ts";
import { isUserBy } from "../user-marks.ts";
import {
  dayOf,
  type EnvironmentLimit,
  isCounted,
  parseAnalyticsLimits,
  type ReachedLimit,
  UNMARKED_SHARE,
} from "./daily-limits.ts";
import { isStoredEvent } from "./guard-space.ts";
import { recordBytes } from "./stored-bytes.ts";

export interface LimitsOutput {
  readonly appId: string;
  readonly mode: Mode;
  readonly analytics: {
    readonly eventsADay: number;
    readonly bytesADay: number;
    readonly eventsADayOfOneId: number;
    readonly bytesADayOfOneId: number;
  };
  readonly today: {
    readonly day: string;
    readonly events: number;
    readonly bytes: number;
    readonly eventsOfOneId: number;
    readonly bytesOfOneId: number;
  };
  readonly reached: { readonly limit: ReachedLimit; readonly at: string }[];
}

export interface SetLimitsInput {
  readonly mode: Mode;
  readonly analytics: {
    readonly eventsADay?: number | undefined;
    readonly bytesADay?: number | undefined;
    readonly eventsADayOfOneId?: number | undefined;
    readonly bytesADayOfOneId?: number | undefined;
  } | null;
}

/** The file grows only when its freed bytes are used up, so their count starts again at 0. */
const updateSize = query((value: ValueOf<{ bytes: number }>) =>
  drizzle
    .update(databaseSize)
    .set({ bytes: value("bytes", databaseSize.bytes), freedBytes: 0 })
    .where(sql`${databaseSize.id} = 1 AND ${databaseSize.bytes} <> ${value("bytes")}`),
);

/** Stores the size of the database's file, which limits analytics (L3). */
async function measureSize({ db, database, databases }: CronCtx): Promise<readonly unknown[]> {
  const open = databases.find(({ index }) => index === database);
  assert(open !== undefined, "a part of the cron works in one database");
  await all(db, updateSize({ bytes: await open.readSize() }));
  return [];
}

export const sizePart: CronPart = { code: "size_not_measured", weight: 1, queriesOfStep: 2, work: measureSize };

const selectSize = query((_value: ValueOf<Record<never, never>>) =>
  drizzle
    .select(computed({ bytes: sql<number>`${databaseSize.bytes} - ${databaseSize.freedBytes}` }))
    .from(databaseSize)
    .where(sql`${databaseSize.id} = 1`),
);

/** Returns how full the environment's database was when the cron last measured it. 1 is full. */
export async function readFullness({ db, settings }: Pick<TenantCtx, "db" | "settings">): Promise<number> {
  const [size] = await all(db, selectSize({}));
  return (size?.bytes ?? 0) / settings.databaseBytesMax;
}

const DAYS_SHOWN = 30;

type EnvironmentDay = { environmentId: number; dayMs: number };

/** The stored limits of an environment, and today's use of them. */
const selectToday = query((value: ValueOf<EnvironmentDay>) => {
  const { environmentId, day, events, bytes, unmarkedEvents, unmarkedBytes, idEvents, idBytes } = analyticsDays;
  const used = computed({
    day: dayOf(value),
    events: sql<number>`coalesce(${events}, 0)`,
    bytes: sql<number>`coalesce(${bytes}, 0)`,
    unmarkedEvents: sql<number>`coalesce(${unmarkedEvents}, 0)`,
    unmarkedBytes: sql<number>`coalesce(${unmarkedBytes}, 0)`,
    idEvents: sql<number>`coalesce(${idEvents}, 0)`,
    idBytes: sql<number>`coalesce(${idBytes}, 0)`,
  });
  return drizzle
    .select({ ...fields(environments, { stored: "analyticsLimits" }), ...used })
    .from(environments)
    .leftJoin(analyticsDays, and(eq(environmentId, environments.id), eq(day, dayOf(value))))
    .where(eq(environments.id, value("environmentId")));
});

const selectReached = query((value: ValueOf<EnvironmentDay>) => {
  const { environmentId, day, limitName, reachedAtMs } = limitsReached;
  return drizzle
    .select({
      ...computed({ limit: sql<ReachedLimit>`${limitName}` }),
      ...fields(limitsReached, { atMs: "reachedAtMs" }),
    })
    .from(limitsReached)
    .where(and(eq(environmentId, value("environmentId")), sql`${day} > ${dayOf(value)} - ${DAYS_SHOWN}`))
    .orderBy(desc(reachedAtMs), limitName);
});

/** Returns the statements that read an environment's limits. */
const limitReads = (values: EnvironmentDay) => [selectToday(values), selectReached(values)] as const;
type FoundToday = RowsOf<ReturnType<typeof limitReads>>;
type TodayRow = FoundToday[0][number];

/** Returns the response from the rows of `limitReads`. */
function presentLimits(appId: string, mode: Mode, today: TodayRow | undefined, reached: FoundToday[1]): LimitsOutput {
  assert(today !== undefined, "an environment is never deleted");
  return {
    appId,
    mode,
    analytics: parseAnalyticsLimits(today.stored),
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

/** Returns the limits in force, today's use, and the limits that were reached recently. Throws `not_found`. */
export async function readLimits(root: SystemCtx, appId: string, mode: Mode): Promise<LimitsOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const dayMs = root.now();
  const [[today], reached] = await batch(root.db, limitReads({ environmentId, dayMs }));
  return presentLimits(appId, mode, today, reached);
}

type LimitsSetting = { environmentId: number; stored: string | null };
const analyticsOfEnvironment = (value: ValueOf<LimitsSetting>) => eq(environments.id, value("environmentId"));
const auditAnalyticsLimitsSet = insertAuditEntry<LimitsSetting>((value) =>
  hasRow(
    environments,
    and(analyticsOfEnvironment(value), sql`${environments.analyticsLimits} IS NOT ${value("stored")}`),
  ),
);
const updateLimits = query((value: ValueOf<LimitsSetting & AuditEntryKey>) =>
  drizzle
    .update(environments)
    .set({ analyticsLimits: value("stored", environments.analyticsLimits) })
    .where(and(analyticsOfEnvironment(value), auditEntryIsLatest(value))),
);

/** Replaces all limits of an environment's analytics, with immediate effect (L3). Throws `not_found`. */
export async function setLimits(admin: AdminCtx, appId: string, input: SetLimitsInput): Promise<LimitsOutput> {
  const { id: environmentId } = await requireEnvironment(admin, appId, input.mode);
  // The limits are in the schema's order, so that equal limits are equal texts.
  const limits = Object.fromEntries(
    Object.entries(input.analytics ?? {}).filter((entry): entry is [string, number] => entry[1] !== undefined),
  );
  const stored = Object.keys(limits).length === 0 ? null : JSON.stringify(limits);
  const details = { mode: input.mode, ...limits };
  const entry = newAuditEntry(admin, { appId, action: "limits.set", target: appId, details });
  const values = { ...entry, environmentId, stored };
  const [, , [today], reached] = await batch(admin.db, [
    auditAnalyticsLimitsSet(values),
    updateLimits(values),
    ...limitReads({ environmentId, dayMs: admin.now() }),
  ]);
  return presentLimits(appId, input.mode, today, reached);
}

const selectNewEvents = query((value: ValueOf<{ environmentId: number; sizes: string }>) => {
  const isStored = isStoredEvent(value("environmentId"), sql`i.value ->> 2`, sql`i.value ->> 0`);
  const ofId = and(
    eq(distinctIds.environmentId, value("environmentId")),
    eq(distinctIds.distinctId, sql`fresh.sender`),
  );
  const mark = sql`(SELECT ${distinctIds.isVerifiedUser} FROM ${distinctIds} WHERE ${ofId})`;
  const isMarked = isUserBy(value("environmentId"), sql`fresh.sender`, mark);
  const record = sql`iif(fresh.nth = 1 AND ${not(hasRow(distinctIds, ofId))}, ${recordBytes(sql`fresh.sender`)}, 0)`;
  return read(
    computed({
      events: sql<number>`count(*)`,
      bytes: sql<number>`coalesce(sum(fresh.added + ${record}), 0)`,
      unmarked: sql<number>`coalesce(sum(fresh.nth = 1 AND NOT ${isMarked}), 0)`,
    }),
    (list) => sql`SELECT ${list} FROM (
      SELECT i.value ->> 1 AS added, i.value ->> 2 AS sender, row_number() OVER (PARTITION BY i.value ->> 2) AS nth
      FROM json_each(${value("sizes")}) AS i WHERE ${not(isStored)}
    ) AS fresh`,
  );
});

/** A request that is stored in parts. */
interface PartedRequest {
  readonly events: number;
  /** At least the bytes that it can add. */
  readonly bytesMax: number;
  /**
   * Returns for each event its UUID, the most bytes that it adds without its id's record, and its id. Called only near a
   * limit.
   */
  readonly sizes: () => readonly EventSize[];
}

export type EventSize = readonly [uuid: string, bytes: number, distinctId: string];

/** A limit that is reached: for all ids, or only for those without a verified mark. */
interface LimitAhead {
  readonly limit: EnvironmentLimit;
  readonly isOfAllIds: boolean;
}

/**
 * Returns the limit of the environment, or of ids without a verified mark, that one of the later parts of a request would exceed. Null when all new events fit. Null also when not even the first event fits, because storing it then reports the
 * limit.
 */
export async function findLimitAhead(
  ctx: TenantCtx,
  { events, bytesMax, sizes }: PartedRequest,
): Promise<LimitAhead | null> {
  if (!isCounted(ctx)) return null;
  const environmentId = ctx.environment.id;
  const [use] = await all(ctx.db, selectToday({ environmentId, dayMs: ctx.realNow() }));
  if (use === undefined) return null;
  const limits = parseAnalyticsLimits(use.stored);
  const left = { events: limits.eventsADay - use.events, bytes: limits.bytesADay - use.bytes };
  const share = {
    events: Math.floor(UNMARKED_SHARE * limits.eventsADay) - use.unmarkedEvents,
    bytes: Math.floor(UNMARKED_SHARE * limits.bytesADay) - use.unmarkedBytes,
  };
  if (share.events <= 0 || share.bytes <= 0 || left.events <= 0 || left.bytes <= 0) return null;
  if (Math.min(share.events, left.events) >= events && Math.min(share.bytes, left.bytes) >= bytesMax) return null;
  const added = { events: 0, bytes: 0, unmarked: use.unmarkedEvents };
  const bySender = new Map(sizes().map((size) => [`${size[0]} ${size[2]}`, size]));
  for (const chunk of jsonChunks([...bySender.values()])) {
    const [ofChunk] = await all(ctx.db, selectNewEvents({ environmentId, sizes: chunk }));
    added.events += ofChunk?.events ?? 0;
    added.bytes += ofChunk?.bytes ?? 0;
    added.unmarked += ofChunk?.unmarked ?? 0;
  }
  if (added.events > left.events) return { limit: "eventsADay", isOfAllIds: true };
  if (added.bytes > left.bytes) return { limit: "bytesADay", isOfAllIds: true };
  if (added.unmarked === 0) return null;
  if (added.events > share.events) return { limit: "eventsADay", isOfAllIds: false };
  return added.bytes > share.bytes ? { limit: "bytesADay", isOfAllIds: false } : null;
}
