import { and, inArray, sql } from "drizzle-orm";
import type { PurserError } from "../errors.ts";
import { DAY_MS } from "../lib/time.ts";
import type { Environment, TenantCtx } from "../runtime.ts";
import { asInteger, assignments, drizzle, insertFrom, names, query, type ValueOf } from "./query.ts";
import { flushRejections, noteRejection, type RejectedOperation, type RejectionKind } from "./rejections.ts";
import { accounts, apiKeys, dailyActivity, distinctIds, firstSeenOfKnownId } from "./schema.ts";
import { databaseAt } from "./session.ts";

/**
 * Daily figures for the overview. Each isolate counts in memory and writes to `daily_activity` after responses, within a few
 * seconds, so that no request waits for the write. Counts are lost when an isolate ends or a write fails, but never doubled.
 * The ledger has the exact amounts.
 */
export type ActivityKind =
  | "granted"
  /** The part of `granted` that payments at Stripe granted. */
  | "sold"
  /** The part of `granted` with the source `purchase`, which is the default, that no payment at Stripe granted. */
  | "purchase"
  | "spent"
  | "refunded"
  /** Restored after Stripe reversed a refund or a dispute. */
  | "restored"
  | "revoked"
  /** Increases minus decreases, so it may be negative. */
  | "adjusted"
  | "erased"
  /** The changes of balances that had expired, on their own day, less those on the day of expiry. It may be negative. */
  | "expired"
  | "failed_grant"
  | "shortage"
  | "usage_limit"
  | "minted"
  | "opened"
  /** A claim by a publishable key that stored data rules out, for example because the claimed id is a user (P2). */
  | "rejected_claim"
  /** Amounts of one pack: their `unit` is the unit, a space, and the pack's id. */
  | "granted_of"
  | "spent_of";

const FLUSH_AFTER_MS = 2_000;
/** A flush that takes longer counts as lost, for example because the platform ended its request. */
const FLUSH_MS_MAX = 30_000;
/** Limits the memory of an isolate that cannot write. */
const COUNTS_MAX = 10_000;

let activityCounts = new Map<string, number>();
let flushDueMs: number | null = null;

/** Counts one occurrence, or `amountMinor` of a unit, on the day of `atMs`. */
export function countActivity(
  environment: Pick<Environment, "id" | "database">,
  kind: ActivityKind,
  atMs: number,
  unit = "",
  amountMinor = 1,
): void {
  // This is JSON, which `flushCounts` parses. JSON.stringify would be slower, and no unit or pack id has a character to escape.
  const key = `[${environment.database},${environment.id},"${kind}",${Math.floor(atMs / DAY_MS)},"${unit}"]`;
  if (activityCounts.size < COUNTS_MAX || activityCounts.has(key))
    activityCounts.set(key, (activityCounts.get(key) ?? 0) + amountMinor);
}

/** Counts a rejection, and notes what was rejected. */
export function countRejection(
  ctx: TenantCtx,
  kind: RejectionKind,
  rejection: PurserError,
  request: RejectedOperation,
): void {
  countActivity(ctx.environment, kind, ctx.now());
  noteRejection(ctx, kind, rejection, request);
}

/** Counts an amount for its unit, and also for its unit and pack together. */
export function countOfPack(
  environment: Pick<Environment, "id" | "database">,
  kind: "granted" | "spent",
  atMs: number,
  { unit, packId }: { readonly unit: string; readonly packId: string },
  amountMinor: number,
): void {
  countActivity(environment, kind, atMs, unit, amountMinor);
  countActivity(environment, `${kind}_of`, atMs, `${unit} ${packId}`, amountMinor);
}

const addCounts = query((value: ValueOf<{ rows: string }>) => {
  const { environmentId, kind, day, unit, amount } = dailyActivity;
  const counted = {
    environmentId: sql`value ->> 0`,
    kind: sql`value ->> 1`,
    day: sql`value ->> 2`,
    unit: sql`value ->> 3`,
    amount: sql`CAST(value ->> 4 AS INTEGER)`,
  };
  const sum = sql`min(${amount} + excluded.${names(amount)}, 4000000000000000000)`;
  return sql`${insertFrom(dailyActivity, counted, sql`FROM json_each(${value("rows")}) WHERE 1`)}
    ON CONFLICT (${names(environmentId, kind, day, unit)}) DO UPDATE SET ${assignments(dailyActivity, { amount: sum })}`;
});

/** Writes everything that this isolate has counted and noted. A failed write is not repeated, so that no figure is doubled. */
export async function flushActivity(env: object): Promise<void> {
  await Promise.all([flushCounts(env), flushLastDays(env), flushRejections(env)]);
}

async function flushCounts(env: object): Promise<void> {
  // `countActivity` wrote the keys as JSON.
  const rows = [...activityCounts].map(
    ([key, amount]) => [...(JSON.parse(key) as [number, ...unknown[]]), amount] as const,
  );
  activityCounts = new Map();
  const writes = [...Map.groupBy(rows, ([index]) => index)].map(async ([index, ofDatabase]) => {
    const { text, params } = addCounts({ rows: JSON.stringify(ofDatabase.map(([, ...row]) => row)) });
    await databaseAt(env, index)
      ?.d1.prepare(text)
      .bind(...params)
      .run();
  });
  await Promise.all(writes);
}

/** Starts the write that runs after a response. Returns null when there is nothing to write, or another write is running. */
export function pendingFlush(env: object, nowMs: number): Promise<void> | null {
  if ((activityCounts.size === 0 && !hasPendingDays()) || (flushDueMs !== null && nowMs < flushDueMs + FLUSH_MS_MAX))
    return null;
  flushDueMs = nowMs + FLUSH_AFTER_MS;
  return scheduler
    .wait(FLUSH_AFTER_MS)
    .then(() => {
      flushDueMs = null;
      return flushActivity(env);
    })
    .catch(() => console.warn(JSON.stringify({ level: "warn", message: "daily activity was not written" })));
}

/**
 * The last day of use: of a key, of a user by a write, and of a person's id by an event. The dashboard shows these days, and no
 * decision depends on them. An isolate notes each once a day, and writes it after a response with the daily figures.
 */
type UsedKind = "key" | "user" | "person";

/** Limits an isolate's memory. A forgotten entry is written once more. */
const NOTED_DAYS_MAX = 50_000;
const PENDING_DAYS_MAX = 5_000;

/** The day that this isolate noted for each key, user or person. */
let notedDays = new Map<string, number>();
/** The noted days that are not written yet. */
let pendingDays: (readonly [database: number, kind: UsedKind, environmentId: number, id: string, day: number])[] = [];

/** Notes the day of a use. */
export function noteUse(
  kind: UsedKind,
  { id: environmentId, database }: Pick<Environment, "id" | "database">,
  id: string,
  atMs: number,
): void {
  const day = Math.floor(atMs / DAY_MS);
  const key = `${kind}\n${database}\n${environmentId}\n${id}`;
  if (notedDays.get(key) === day) return;
  if (pendingDays.length >= PENDING_DAYS_MAX) return;
  if (notedDays.size >= NOTED_DAYS_MAX) notedDays = new Map();
  notedDays.set(key, day);
  pendingDays.push([database, kind, environmentId, id, day]);
}

const hasPendingDays = (): boolean => pendingDays.length > 0;

type DayRows = { rows: string; day: number };

const updateKeyDays = query((value: ValueOf<DayRows>) => {
  const { hash, environmentId, id, lastUsedDay } = apiKeys;
  const used = sql`(SELECT ${hash} FROM json_each(${value("rows")}) AS s CROSS JOIN ${apiKeys}
    ON ${environmentId} = s.value ->> 0 AND ${id} = s.value ->> 1)`;
  return drizzle
    .update(apiKeys)
    .set({ lastUsedDay: asInteger(value("day")) })
    .where(and(sql`coalesce(${lastUsedDay}, 0) < ${value("day")}`, inArray(hash, used)));
});

const updateUserDays = query((value: ValueOf<DayRows>) => {
  const { id, environmentId, userId, lastActiveDay } = accounts;
  const active = sql`(SELECT ${id} FROM json_each(${value("rows")}) AS s CROSS JOIN ${accounts}
    ON ${environmentId} = s.value ->> 0 AND ${userId} = s.value ->> 1)`;
  return drizzle
    .update(accounts)
    .set({ lastActiveDay: asInteger(value("day")) })
    .where(and(sql`coalesce(${lastActiveDay}, 0) < ${value("day")}`, inArray(id, active)));
});

/**
 * An upsert of existing rows, because an UPDATE that joins a list would read all ids. It skips devices without an identified user,
 * because they are many and of no interest to an operator.
 */
const updatePersonDays = query((value: ValueOf<DayRows>) => {
  const { environmentId, distinctId, isDeviceForm, lastSeenAtMs, lastActiveDay } = distinctIds;
  const unchanged = { environmentId, distinctId, isDeviceForm, firstSeenAtMs: firstSeenOfKnownId, lastSeenAtMs };
  const set = assignments(distinctIds, { lastActiveDay: sql`excluded.${names(lastActiveDay)}` });
  const from = sql`FROM json_each(${value("rows")}) AS s CROSS JOIN ${distinctIds}
    ON ${environmentId} = s.value ->> 0 AND ${distinctId} = s.value ->> 1
    WHERE coalesce(${lastActiveDay}, 0) < ${value("day")} AND ${distinctIds.isSender} = 1
      AND (${isDeviceForm} = 0 OR ${distinctIds.isIdentified} = 1)`;
  return sql`${insertFrom(distinctIds, { ...unchanged, lastActiveDay: asInteger(value("day")) }, from)}
    ON CONFLICT (${names(environmentId, distinctId)}) DO UPDATE SET ${set}`;
});

const dayUpdates = { key: updateKeyDays, user: updateUserDays, person: updatePersonDays };

/** Writes the pending days, one statement for each database, kind and day. If a write fails, its days are missing. */
async function flushLastDays(env: object): Promise<void> {
  const groups = Map.groupBy(pendingDays, ([database, kind, , , day]) => `${database} ${kind} ${day}`);
  pendingDays = [];
  await Promise.all([...groups.values()].map((group) => writeLastDays(env, group)));
}

async function writeLastDays(env: object, group: typeof pendingDays): Promise<void> {
  const [first] = group;
  if (first === undefined) return;
  const [database, kind, , , day] = first;
  const rows = JSON.stringify(group.map(([, , environmentId, id]) => [environmentId, id]));
  const { text, params } = dayUpdates[kind]({ rows, day });
  await databaseAt(env, database)
    ?.d1.prepare(text)
    .bind(...params)
    .run();
}
