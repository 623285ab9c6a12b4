import { and, inArray, sql } from "drizzle-orm";
import type { PurserError } from "../errors.ts";
import { DAY_MS } from "../lib/time.ts";
import type { Environment, TenantCtx } from "../runtime.ts";
import { asInteger, assignments, drizzle, insertFrom, names, query, type ValueOf } from "./query.ts";
import { flushRefusals, noteRefusal, type RefusalKind, type RefusedAsk } from "./refusals.ts";
import { accounts, apiKeys, dailyActivity, distinctIds, firstSeenOfKnownId } from "./schema.ts";
import { databaseAt } from "./session.ts";

/**
 * Daily figures for the overview. Each isolate counts in memory and writes to `daily_activity` after responses, within a few
 * seconds, so that no request waits for the write. Counts are lost when an isolate ends or a write fails, but never doubled:
 * only the ledger is exact.
 */
export type ActivityKind =
  | "granted"
  /** The part of `granted` that was granted for a purchase. */
  | "sold"
  | "spent"
  | "refunded"
  /** Given back to a payment that Stripe refunded or disputed. */
  | "restored"
  | "revoked"
  /** Increases minus decreases, so it may be negative. */
  | "adjusted"
  | "erased"
  | "expiring"
  | "failed_grant"
  | "shortage"
  | "usage_limit"
  | "minted"
  | "opened"
  /** A claim by a publishable key that stored data rules out, for example because the claimed id is a user (P2). */
  | "refused_claim"
  /** Amounts of one pack: their `unit` is the unit, a space, and the pack's id. */
  | "granted_of"
  | "spent_of";

const FLUSH_AFTER_MS = 2_000;
/** After this time a flush counts as lost, for example because the platform ended its request. */
const FORGOTTEN_AFTER_MS = 30_000;
/** Bounds the memory of an isolate that never gets to write. */
const COUNTS_MAX = 10_000;

let activityCounts = new Map<string, number>();
let flushDueMs: number | null = null;

/** Counts one occurrence, or `amountSteps` of a unit, on the day of `atMs`. */
export function countActivity(
  environment: Pick<Environment, "id" | "database">,
  kind: ActivityKind,
  atMs: number,
  unit = "",
  amountSteps = 1,
): void {
  // JSON for `flushCounts`: no unit and no id of a pack has a character to escape. A grant counts twice for each of its items.
  const key = `[${environment.database},${environment.id},"${kind}",${Math.floor(atMs / DAY_MS)},"${unit}"]`;
  if (activityCounts.size < COUNTS_MAX || activityCounts.has(key))
    activityCounts.set(key, (activityCounts.get(key) ?? 0) + amountSteps);
}

/** Counts a refusal, and notes who asked for what. */
export function countRefusal(ctx: TenantCtx, kind: RefusalKind, refusal: PurserError, asked: RefusedAsk): void {
  countActivity(ctx.environment, kind, ctx.now());
  noteRefusal(ctx, kind, refusal, asked);
}

/** Counts an amount twice: for its unit, and for its unit and pack. */
export function countOfPack(
  environment: Pick<Environment, "id" | "database">,
  kind: "granted" | "spent",
  atMs: number,
  { unit, packId }: { readonly unit: string; readonly packId: string },
  amountSteps: number,
): void {
  countActivity(environment, kind, atMs, unit, amountSteps);
  countActivity(environment, `${kind}_of`, atMs, `${unit} ${packId}`, amountSteps);
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

/** Writes the counts. A failed write is not repeated, so that figures may be too low but never doubled. */
export async function flushActivity(env: object): Promise<void> {
  await Promise.all([flushCounts(env), flushSeen(env), flushRefusals(env)]);
}

async function flushCounts(env: object): Promise<void> {
  // JSON.parse of a key that `countActivity` wrote; the amount goes beside it.
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

/** The write to run after a response. Null when there is nothing to write or another write is still running. */
export function pendingFlush(env: object, nowMs: number): Promise<void> | null {
  if ((activityCounts.size === 0 && !isAnySeen()) || (flushDueMs !== null && nowMs < flushDueMs + FORGOTTEN_AFTER_MS))
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
 * The last day of a key's use, of a write for a user, and of an event of a person's id. These days are shown to people; no
 * decision depends on them. An isolate notes each once a day, and writes it after a response with the daily figures.
 */
type Seen = "key" | "user" | "person";

/** Bounds an isolate's memory. A forgotten entry is written once more. */
const KNOWN_MAX = 50_000;
const NOTED_MAX = 5_000;

/** The day that this isolate noted for each key, user or person. */
let known = new Map<string, number>();
let noted: (readonly [database: number, kind: Seen, environmentId: number, id: string, day: number])[] = [];

export function noteUse(
  kind: Seen,
  { id: environmentId, database }: Pick<Environment, "id" | "database">,
  id: string,
  atMs: number,
): void {
  const day = Math.floor(atMs / DAY_MS);
  const thing = `${kind}\n${database}\n${environmentId}\n${id}`;
  if (known.get(thing) === day) return;
  if (noted.length >= NOTED_MAX) return;
  if (known.size >= KNOWN_MAX) known = new Map();
  known.set(thing, day);
  noted.push([database, kind, environmentId, id, day]);
}

const isAnySeen = (): boolean => noted.length > 0;

type CountRows = { rows: string; day: number };

const updateKeyDays = query((value: ValueOf<CountRows>) => {
  const { hash, environmentId, id, lastUsedDay } = apiKeys;
  const used = sql`(SELECT ${hash} FROM json_each(${value("rows")}) AS s CROSS JOIN ${apiKeys}
    ON ${environmentId} = s.value ->> 0 AND ${id} = s.value ->> 1)`;
  return drizzle
    .update(apiKeys)
    .set({ lastUsedDay: asInteger(value("day")) })
    .where(and(sql`coalesce(${lastUsedDay}, 0) < ${value("day")}`, inArray(hash, used)));
});

const updateUserDays = query((value: ValueOf<CountRows>) => {
  const { id, environmentId, userId, lastActiveDay } = accounts;
  const active = sql`(SELECT ${id} FROM json_each(${value("rows")}) AS s CROSS JOIN ${accounts}
    ON ${environmentId} = s.value ->> 0 AND ${userId} = s.value ->> 1)`;
  return drizzle
    .update(accounts)
    .set({ lastActiveDay: asInteger(value("day")) })
    .where(and(sql`coalesce(${lastActiveDay}, 0) < ${value("day")}`, inArray(id, active)));
});

/**
 * An upsert of existing rows, because an UPDATE that joins a list would read all ids. Devices without an identified user are left
 * out, because they are many and tell an operator nothing.
 */
const updatePersonDays = query((value: ValueOf<CountRows>) => {
  const { environmentId, distinctId, isDeviceForm, lastSeenAtMs, lastActiveDay } = distinctIds;
  const kept = { environmentId, distinctId, isDeviceForm, firstSeenAtMs: firstSeenOfKnownId, lastSeenAtMs };
  const set = assignments(distinctIds, { lastActiveDay: sql`excluded.${names(lastActiveDay)}` });
  const sent = sql`FROM json_each(${value("rows")}) AS s CROSS JOIN ${distinctIds}
    ON ${environmentId} = s.value ->> 0 AND ${distinctId} = s.value ->> 1
    WHERE coalesce(${lastActiveDay}, 0) < ${value("day")} AND ${distinctIds.isSender} = 1
      AND (${isDeviceForm} = 0 OR ${distinctIds.isIdentified} = 1)`;
  return sql`${insertFrom(distinctIds, { ...kept, lastActiveDay: asInteger(value("day")) }, sent)}
    ON CONFLICT (${names(environmentId, distinctId)}) DO UPDATE SET ${set}`;
});

const updates = { key: updateKeyDays, user: updateUserDays, person: updatePersonDays };

/** Writes the noted days, one statement for each database, kind and day. After a failed write they are missing for a day. */
async function flushSeen(env: object): Promise<void> {
  const groups = Map.groupBy(noted, ([database, kind, , , day]) => `${database} ${kind} ${day}`);
  noted = [];
  await Promise.all([...groups.values()].map((group) => writeCounts(env, group)));
}

async function writeCounts(env: object, group: typeof noted): Promise<void> {
  const [first] = group;
  if (first === undefined) return;
  const [database, kind, , , day] = first;
  const rows = JSON.stringify(group.map(([, , environmentId, id]) => [environmentId, id]));
  const { text, params } = updates[kind]({ rows, day });
  await databaseAt(env, database)
    ?.d1.prepare(text)
    .bind(...params)
    .run();
}
