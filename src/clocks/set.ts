import { requireEnvironment } from "../catalog/apps/app.ts";
import { insertAct, newAct } from "../catalog/audit/audit-statement.ts";
import { AHEAD_MS_MAX, readClock, type TestClock, timeOf } from "../db/clock.ts";
import { retryOnConflict } from "../db/retry-on-conflict.ts";
import { batch } from "../db/sql.ts";
import { invalid } from "../errors.ts";
import { iso } from "../lib/time.ts";
import type { AdminCtx } from "../runtime.ts";
import { advanceClock, clockWrites } from "./advance.ts";
import type { ClockOutput } from "./responses.ts";
import type { SetClockInput } from "./schemas.ts";

const STEPS_A_REQUEST = 60;
const MS_A_REQUEST = 15_000;
/** The constraint that fails where the clock was moved after it was read. */
const CONFLICTS = new Set(["guard_environment"] as const);

const audit = insertAct();

/**
 * Sets the time of an application's test environment (D3), and does what lies in between, as far as one request goes: the cron
 * does the rest. The same time again is the same clock, and goes on with it. Throws `not_found`, and `invalid_request` for a time
 * that is not later than the environment's, or more than ten years ahead.
 */
export async function setClock(
  admin: AdminCtx,
  appId: string,
  { now: setMs }: SetClockInput,
  steps = STEPS_A_REQUEST,
): Promise<{ readonly output: ClockOutput; readonly replayed: boolean }> {
  const act = newAct(admin, { appId, action: "clock.set", target: appId, details: { mode: "test", now: iso(setMs) } });
  const { environment, replayed } = await retryOnConflict(CONFLICTS, admin.newId(""), async () => {
    const { clock, endUserAuth: _, ...environment } = await requireEnvironment(admin, appId, "test");
    const before = clock === null ? null : readClock(clock);
    if (before?.setMs === setMs) return { environment, replayed: true };
    const after = afterSetting(before, admin.now(), setMs);
    await batch(admin.db, [audit(act), ...clockWrites(environment.id, clock, after)]);
    return { environment, replayed: false };
  });
  let left = steps;
  const allowance = { has: () => left-- > 0, untilMs: admin.now() + MS_A_REQUEST };
  const status = await advanceClock(admin, environment, allowance);
  return { output: { now: iso(setMs), status }, replayed };
}

/** The clock once it is set: it stands where it is until what lies in between is done. */
function afterSetting(before: TestClock | null, realMs: number, setMs: number): TestClock {
  const { aheadMs = 0 } = before ?? {};
  const atMs = before === null ? realMs : timeOf(before, realMs);
  if (setMs <= Math.max(atMs, before?.setMs ?? 0)) {
    throw invalid("now", "must be later than the environment's time, and than what its clock was set to before");
  }
  if (setMs > realMs + AHEAD_MS_MAX) throw invalid("now", "must be at most ten years ahead of real time");
  return { aheadMs, atMs, setMs };
}
