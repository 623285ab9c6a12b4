import { sql } from "drizzle-orm";
import type { PurserError } from "../../errors.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { Environment, TenantCtx } from "../../runtime.ts";
import { databaseAt } from "../databases.ts";
import { assignments, insertFrom, names, query, type ValueOf } from "../query.ts";
import { dailyActivity } from "../schema.ts";
import { flushSeen, isAnySeen } from "./last-seen.ts";
import { flushRefusals, noteRefusal, type RefusalKind, type RefusedAsk } from "./refusals.ts";

/**
 * What happened by day, for the overview: counted in this isolate as it happens, and written to `daily_activity` behind
 * the answers, a few seconds later at the latest, so that no request writes or waits for it. What an isolate that ends
 * has not written yet, or a write that fails, is missing from the overview, never counted twice; the ledger is exact.
 */
export type ActivityKind =
  | "granted"
  | "spent"
  | "refunded"
  | "expiring"
  | "failed_grant"
  | "shortage"
  | "minted"
  | "opened"
  /** A claim by a publishable key that links nothing because of what is stored, such as that its id is a user (P2). */
  | "refused_claim"
  /** Of one pack: their `unit` is the unit, a space, and the pack's id. */
  | "granted_of"
  | "spent_of";

const FLUSH_AFTER_MS = 2_000;
/** A flush that was never heard of again, such as one whose request was ended by the platform. */
const FORGOTTEN_AFTER_MS = 30_000;
/** So that an isolate that never gets to write does not grow. */
const COUNTS_MAX = 10_000;

let counts = new Map<string, number>();
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
  if (counts.size < COUNTS_MAX || counts.has(key)) counts.set(key, (counts.get(key) ?? 0) + amountSteps);
}

/** Counts a refusal, and notes who asked for what. */
export function countRefusal(ctx: TenantCtx, kind: RefusalKind, refusal: PurserError, asked: RefusedAsk): void {
  countActivity(ctx.environment, kind, ctx.now());
  noteRefusal(ctx, kind, refusal, asked);
}

/** Counts an amount of a unit, and that of its pack. */
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

/** Writes what was counted. Not sent again when it fails: the figures may then lack something, never hold it twice. */
export async function flushActivity(env: object): Promise<void> {
  await Promise.all([flushCounts(env), flushSeen(env), flushRefusals(env)]);
}

async function flushCounts(env: object): Promise<void> {
  // JSON.parse of a key that `countActivity` wrote; the amount goes beside it.
  const rows = [...counts].map(([key, amount]) => [...(JSON.parse(key) as [number, ...unknown[]]), amount] as const);
  counts = new Map();
  const writes = [...Map.groupBy(rows, ([index]) => index)].map(async ([index, ofDatabase]) => {
    const { text, params } = addCounts({ rows: JSON.stringify(ofDatabase.map(([, ...row]) => row)) });
    await databaseAt(env, index)
      ?.d1.prepare(text)
      .bind(...params)
      .run();
  });
  await Promise.all(writes);
}

/** The write that is to follow an answer; null when there is nothing to write, or a write is on its way. */
export function pendingFlush(env: object, nowMs: number): Promise<void> | null {
  if ((counts.size === 0 && !isAnySeen()) || (flushDueMs !== null && nowMs < flushDueMs + FORGOTTEN_AFTER_MS))
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
