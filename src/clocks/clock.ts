import { eq, sql } from "drizzle-orm";
import { requireEnvironment } from "../catalog/apps.ts";
import { insertAuditEntry, newAuditEntry } from "../catalog/audit.ts";
import { attempt, findConstraint } from "../db/attempt.ts";
import { asInteger, drizzle, query, type ValueOf } from "../db/query.ts";
import { expiryNotices } from "../db/schema.ts";
import { AHEAD_MS_MAX, clockTime, dayStartOfMove, readClock, type TestClock } from "../db/settings-snapshot.ts";
import { batch } from "../db/sql.ts";
import { invalid, PurserError } from "../errors.ts";
import { iso } from "../lib/time.ts";
import type { AdminCtx, SystemCtx } from "../runtime.ts";
import { advanceClock, clockWrites } from "./advance.ts";

export interface SetClockInput {
  readonly now: number;
}

export interface ClockOutput {
  readonly now: string | null;
  readonly status: "advancing" | "ready";
}

const STEPS_A_REQUEST = 60;
const MS_A_REQUEST = 15_000;
const auditSet = insertAuditEntry();

/**
 * Sets the time of an application's test environment (D3), and processes the events in between. The cron processes those that
 * do not fit into a request. A request with the same time continues the work. Throws `not_found`, and `invalid_request` for a
 * time that is not later than the environment's, or more than ten years ahead of real time.
 */
export async function setClock(
  admin: AdminCtx,
  appId: string,
  { now: setMs }: SetClockInput,
  steps = STEPS_A_REQUEST,
): Promise<{ readonly output: ClockOutput; readonly replayed: boolean }> {
  const entry = newAuditEntry(admin, {
    appId,
    action: "clock.set",
    target: appId,
    details: { mode: "test", now: iso(setMs) },
  });
  const { environment, replayed } = await attempt(admin, async () => {
    const { clock, endUserAuth: _, ...environment } = await requireEnvironment(admin, appId, "test");
    const before = clock === null ? null : readClock(clock);
    if (before?.setMs === setMs) return { environment, replayed: true };
    const after = afterSetting(before, admin.now(), setMs);
    await batch(admin.db, [auditSet(entry), ...clockWrites(environment.id, clock, after)]);
    return { environment, replayed: false };
  });
  let stepsLeft = steps;
  const allowance = { has: () => stepsLeft-- > 0, untilMs: admin.now() + MS_A_REQUEST };
  const status = await advanceClock(admin, environment, allowance);
  return { output: { now: iso(setMs), status }, replayed };
}

/** Returns the clock after it was set. It stands still until the events in between are processed. */
function afterSetting(before: TestClock | null, realMs: number, setMs: number): TestClock {
  const { aheadMs = 0 } = before ?? {};
  const atMs = before === null ? realMs : clockTime(before, realMs);
  const latestMs = Math.max(atMs, before?.setMs ?? 0);
  if (setMs <= latestMs) {
    throw invalid(
      "now",
      `must be later than the environment's time and the time that was last set: after ${iso(latestMs)}`,
    );
  }
  if (setMs > realMs + AHEAD_MS_MAX) throw invalid("now", "must be at most ten years ahead of real time");
  return { aheadMs, atMs, setMs, dayStart: dayStartOfMove(before, realMs) };
}

const NO_CLOCK: ClockOutput = { now: null, status: "ready" };

/** Returns the time of an application's test environment if it has a clock (D3). Throws `not_found`. */
export async function readTestClock(root: SystemCtx, appId: string): Promise<ClockOutput> {
  const { clock } = await requireEnvironment(root, appId, "test");
  if (clock === null) return NO_CLOCK;
  const testClock = readClock(clock);
  const status = testClock.atMs === undefined ? "ready" : "advancing";
  return { now: iso(clockTime(testClock, root.now())), status };
}

const auditRemoved = insertAuditEntry();
/** Lets notices take effect now that were set at a later time of the clock. */
const resetNotices = query((value: ValueOf<{ environmentId: number; nowMs: number }>) =>
  drizzle
    .update(expiryNotices)
    .set({ sinceMs: sql`min(${expiryNotices.sinceMs}, ${asInteger(value("nowMs"))})` })
    .where(eq(expiryNotices.environmentId, value("environmentId"))),
);

/**
 * Removes the test clock, so that the environment has real time again (D3). Throws `not_found`, and `invalid_request` if the
 * environment has credits, usage, payments or people, because their times would then be in the future.
 */
export async function removeClock(admin: AdminCtx, appId: string): Promise<ClockOutput> {
  const entry = newAuditEntry(admin, { appId, action: "clock.removed", target: appId, details: { mode: "test" } });
  return attempt(admin, async () => {
    const { id: environmentId, clock } = await requireEnvironment(admin, appId, "test");
    if (clock === null) return NO_CLOCK;
    const reset = resetNotices({ environmentId, nowMs: admin.now() });
    const writes = [auditRemoved(entry), ...clockWrites(environmentId, clock, null), reset];
    await batch(admin.db, writes).catch(rejectRemoval);
    return NO_CLOCK;
  });
}

function rejectRemoval(error: unknown): never {
  if (findConstraint(error) !== "clock_kept") throw error;
  throw new PurserError(
    "invalid_request",
    "The test environment has credits, usage, payments or people, and their times are from its clock. Keep the clock, or create another application.",
    { cause: error },
  );
}
