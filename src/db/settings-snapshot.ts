import { and, eq, type SQL, sql } from "drizzle-orm";
import { clockMoved, rejectionIn } from "../errors.ts";
import { rememberPerObject, rememberUpTo } from "../lib/bounded-memory.ts";
import { DAY_MS } from "../lib/time.ts";
import type { Environment, Runtime, TenantCtx } from "../runtime.ts";
import { drizzle, fields, hasRow, insertFrom, query, scalar, type ValueOf } from "./query.ts";
import { environments } from "./schema.ts";
import type { Statement } from "./sql.ts";
import { guards } from "./views.ts";

/**
 * The optional features that an environment uses, as JSON in `environments.settings_snapshot`. Each feature has one part, whose shape the
 * feature's own module defines. Null when the environment uses none.
 */
export interface SettingsSnapshot {
  /** The enabled endpoints. */
  readonly webhooks?: unknown;
  readonly alerts?: unknown;
  readonly notices?: unknown;
  /** The versions of the price list that take force last. Present once there was one (PR1). */
  readonly prices?: unknown;
  /** The usage limits, oldest first. */
  readonly limits?: unknown;
  /** Present while the environment has tombstones of erased ids. */
  readonly tombstones?: unknown;
  /** The test clock (D3). */
  readonly clock?: unknown;
  /** How many erasures were lifted. After a lift, isolates discard what they remembered before. */
  readonly lifts?: unknown;
}

const NO_SETTINGS_SNAPSHOT: SettingsSnapshot = {};
/** Parses a text of `environments.settings_snapshot`. An environment's text seldom changes, and only `changeFeature` writes it. */
const parseSettingsSnapshot = rememberUpTo(100, (text) => JSON.parse(text) as SettingsSnapshot);

export const readSettingsSnapshot = (text: string | null): SettingsSnapshot =>
  text === null ? NO_SETTINGS_SNAPSHOT : parseSettingsSnapshot(text);

type EnvironmentKey = { environmentId: number };
type SettingsSnapshotKey = EnvironmentKey & { settingsSnapshot: string | null };

const isEnvironment = (value: ValueOf<EnvironmentKey>) => eq(environments.id, value("environmentId"));

/** SQL: the settings snapshot of the environment. Reads one row. */
export const settingsSnapshotOf = (value: ValueOf<EnvironmentKey>) =>
  scalar(drizzle.select(fields(environments, "settingsSnapshot")).from(environments).where(isEnvironment(value)));

/** SQL: whether the environment's settings snapshot still equals the given text. */
export const hasSettingsSnapshot = (value: ValueOf<SettingsSnapshotKey>): SQL =>
  hasRow(
    environments,
    and(isEnvironment(value), sql`${environments.settingsSnapshot} IS ${value("settingsSnapshot")}`),
  );

/** Aborts the batch with `guard_environment` when the environment's settings snapshot no longer equals the given text. */
export const guardSettingsSnapshot = query((value: ValueOf<SettingsSnapshotKey>) =>
  insertFrom(guards, { name: sql`'environment'`, holds: hasSettingsSnapshot(value) }, sql``),
);

const setFeature = query((value: ValueOf<EnvironmentKey & { path: string; part: string }>) => {
  const whole = sql`coalesce(${environments.settingsSnapshot}, '{}')`;
  const settingsSnapshot = sql`json_set(${whole}, ${value("path")}, json(${value("part")}))`;
  return drizzle.update(environments).set({ settingsSnapshot }).where(isEnvironment(value));
});

const removeFeature = query((value: ValueOf<EnvironmentKey & { path: string }>) => {
  const settingsSnapshot = sql`nullif(json_remove(${environments.settingsSnapshot}, ${value("path")}), '{}')`;
  return drizzle.update(environments).set({ settingsSnapshot }).where(isEnvironment(value));
});

/** Sets a part of an environment's settings snapshot; null removes it. Send it in the batch that changes the rows of the feature. */
export function changeFeature(environmentId: number, name: keyof SettingsSnapshot, part: object | null): Statement {
  const path = `$.${name}`;
  return part === null
    ? removeFeature({ environmentId, path })
    : setFeature({ environmentId, path, part: JSON.stringify(part) });
}

/** An environment's test clock (D3): the part `clock` of its settings snapshot. */
export interface TestClock {
  /** How far the environment's time is ahead of real time. It never falls. */
  readonly aheadMs: number;
  /** While the clock is advanced in steps: the moment reached so far, at which the environment's time stands still. */
  readonly atMs?: number;
  /** The time that the last request set. */
  readonly setMs: number;
  /** The real start of the UTC day of the last request, and the environment's time at that moment. */
  readonly dayStart?: { readonly realMs: number; readonly atMs: number };
}

/** At most ten years ahead of real time: ten years with three leap days. A CHECK says the same. */
export const AHEAD_MS_MAX = 3_653 * DAY_MS;

/** SQL: the test clock in an environment's settings snapshot, as text; null for none. */
export const clockOf = () => sql<string | null>`(${environments.settingsSnapshot} -> '$.clock') || ''`;

/** Aborts the batch with `guard_environment` if the environment has another test clock. */
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

/** Returns the test clock in an environment's settings snapshot, as the same text as `clockOf`. */
function clockIn(settingsSnapshot: string | null): string | null {
  const { clock } = readSettingsSnapshot(settingsSnapshot);
  return clock === undefined ? null : JSON.stringify(clock);
}

/** Parses the text of `clockOf`. */
export const readClock = (clock: string): TestClock => JSON.parse(clock) as TestClock;

/** Returns the environment's time, from its test clock and the real time. */
export function clockTime({ aheadMs, atMs }: TestClock, realMs: number): number {
  return atMs ?? realMs + aheadMs;
}

const realDayStart = (realMs: number): number => realMs - (realMs % DAY_MS);

/** Returns the environment's time at the start of the current UTC day in real time (D3). */
export function findDayStart(clock: TestClock | null, realMs: number): number {
  const startMs = realDayStart(realMs);
  if (clock === null) return startMs;
  const { dayStart } = clock;
  return dayStart?.realMs === startMs ? dayStart.atMs : startMs + clockTime(clock, realMs) - realMs;
}

/** Returns `dayStart` for a clock that is set now. `before` is the previous clock. */
export const dayStartOfMove = (before: TestClock | null, realMs: number): NonNullable<TestClock["dayStart"]> => ({
  realMs: realDayStart(realMs),
  atMs: findDayStart(before, realMs),
});

/** Returns both times of an environment: its own time (D3), and real time. */
export function timesOf(
  clock: string | null,
  { now }: Pick<Runtime, "now">,
): Pick<TenantCtx, "clock" | "now" | "realNow"> {
  if (clock === null) return { clock, now, realNow: now };
  const testClock = readClock(clock);
  return { clock, now: () => clockTime(testClock, now()), realNow: now };
}

/** The test clocks that this isolate read last, as text. They may be outdated, so every use is checked against the database. */
const clocksOf = rememberPerObject(() => new Map<string, string>());
const CLOCKS_MAX = 1_000;

type EnvironmentName = Pick<Environment, "appId" | "mode">;
const clockKey = ({ appId, mode }: EnvironmentName): string => `${appId} ${mode}`;

/** Returns the test clock that this isolate remembers for an environment. */
export function knownClock({ isolate }: Pick<Runtime, "isolate">, environment: EnvironmentName): string | null {
  return clocksOf(isolate).get(clockKey(environment)) ?? null;
}

export function rememberClock(
  { isolate }: Pick<Runtime, "isolate">,
  environment: EnvironmentName,
  clock: string | null,
): void {
  const clocks = clocksOf(isolate);
  if (clocks.size >= CLOCKS_MAX) clocks.clear();
  if (clock === null) clocks.delete(clockKey(environment));
  else clocks.set(clockKey(environment), clock);
}

const CALLS_MAX = 8;

/**
 * Calls `call` again, up to eight times, while it fails with `clockMoved`. The isolate has then stored the new clock, and `call`
 * must read it from `knownClock`.
 */
export async function atLatestClock<Answer>(call: (count: number) => Promise<Answer>): Promise<Answer> {
  for (let count = 1; ; count++) {
    try {
      return await call(count);
    } catch (error) {
      if (count === CALLS_MAX || rejectionIn(error)?.fault !== "clock_moved") throw error;
    }
  }
}

/** If the environment's settings snapshot has another test clock than `ctx`, remembers that clock and throws `clockMoved`. */
export function requireClock(
  ctx: Pick<TenantCtx, "isolate" | "clock"> & { readonly environment: EnvironmentName },
  settingsSnapshot: string | null,
): void {
  const clock = clockIn(settingsSnapshot);
  if (clock === ctx.clock) return;
  rememberClock(ctx, ctx.environment, clock);
  throw clockMoved();
}
