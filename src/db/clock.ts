import { and, eq, sql } from "drizzle-orm";
import { clockMoved, refusalIn } from "../errors.ts";
import type { Environment, Runtime, TenantCtx } from "../runtime.ts";
import { readFeatures } from "./features.ts";
import { hasRow, insertFrom, query, type ValueOf } from "./query.ts";
import { environments } from "./schema.ts";
import { fragment } from "./sql.ts";
import { guards } from "./views.ts";

/** An environment's test clock (D3): the part `clock` of its features (features.ts). */
export interface TestClock {
  /** How far the environment's time is ahead of real time. It never falls. */
  readonly aheadMs: number;
  /** While the clock is moved: the moment reached, at which the environment's time stands. */
  readonly atMs?: number;
  /** The time to which it was set last. */
  readonly setMs: number;
}

/** At most ten years ahead of real time: ten years with three leap days. A CHECK says the same. */
export const AHEAD_MS_MAX = 3_653 * 86_400_000;

/** SQL: the test clock in an environment's features, as text; null for none. */
export const clockSql = (features: string): string => fragment`(${features} -> '$.clock') || ''`;

/** The test clock in an environment's features, as text; null for none. */
export const clockOf = () => sql<string | null>`(${environments.features} -> '$.clock') || ''`;

/** Aborts the batch with `guard_environment` where the environment has another test clock. */
export const guardClock = query((value: ValueOf<{ environmentId: number; clock: string | null }>) =>
  insertFrom(
    guards,
    {
      name: sql`'environment'`,
      holds: hasRow(
        environments,
        and(eq(environments.id, value("environmentId")), sql`${clockOf()} IS ${value("clock")}`),
      ),
    },
    sql``,
  ),
);

/** The test clock of an environment, by its features, as `clockSql` gives it. */
function clockIn(features: string | null): string | null {
  const { clock } = readFeatures(features);
  return clock === undefined ? null : JSON.stringify(clock);
}

/** Reads what `clockSql` gives. */
export const readClock = (clock: string): TestClock => JSON.parse(clock) as TestClock;

/** The environment's time, by its test clock and the real time. */
export function timeOf({ aheadMs, atMs }: TestClock, realMs: number): number {
  return atMs ?? realMs + aheadMs;
}

/** What a runtime tells of an environment: its own time (D3), beside the real one. */
export function timesOf(
  clock: string | null,
  { now }: Pick<Runtime, "now">,
): Pick<TenantCtx, "clock" | "now" | "realNow"> {
  if (clock === null) return { clock, now, realNow: now };
  const testClock = readClock(clock);
  return { clock, now: () => timeOf(testClock, now()), realNow: now };
}

/** What each isolate knows of test clocks, as text. Nothing rests on it: whoever uses it compares it with the database. */
const clocks = new WeakMap<object, Map<string, string>>();
const CLOCKS_MAX = 1_000;

type Place = Pick<Environment, "appId" | "mode">;
const keyOf = ({ appId, mode }: Place): string => `${appId} ${mode}`;

/** The test clock of an environment, as far as this isolate knows. */
export function knownClock({ isolate }: Pick<Runtime, "isolate">, environment: Place): string | null {
  return clocks.get(isolate)?.get(keyOf(environment)) ?? null;
}

export function learnClock({ isolate }: Pick<Runtime, "isolate">, environment: Place, clock: string | null): void {
  const known = clocks.get(isolate) ?? new Map<string, string>();
  clocks.set(isolate, known);
  if (known.size >= CLOCKS_MAX) known.clear();
  if (clock === null) known.delete(keyOf(environment));
  else known.set(keyOf(environment), clock);
}

const CALLS_MAX = 8;

/**
 * Calls again, up to eight times, what fails with `clockMoved`. The isolate has learnt the clock by then, so `call` takes its time anew
 * from `knownClock`.
 */
export async function atLatestClock<Answer>(call: (count: number) => Promise<Answer>): Promise<Answer> {
  for (let count = 1; ; count++) {
    try {
      return await call(count);
    } catch (error) {
      if (count === CALLS_MAX || refusalIn(error)?.fault !== "clock_moved") throw error;
    }
  }
}

/** Throws `clockMoved` where the environment's features tell of another test clock than that of `ctx`, and learns it. */
export function requireClock(
  ctx: Pick<TenantCtx, "isolate" | "clock"> & { readonly environment: Place },
  features: string | null,
): void {
  const clock = clockIn(features);
  if (clock === ctx.clock) return;
  learnClock(ctx, ctx.environment, clock);
  throw clockMoved();
}
