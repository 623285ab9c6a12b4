import { requireEnvironment } from "../catalog/apps/app.ts";
import { readClock, timeOf } from "../db/clock.ts";
import { iso } from "../lib/time.ts";
import type { SystemCtx } from "../runtime.ts";
import type { ClockOutput } from "./responses.ts";

export const NO_CLOCK: ClockOutput = { now: null, status: "ready" };

/** The time of an application's test environment, if it has a clock (D3). Throws `not_found`. */
export async function readTestClock(root: SystemCtx, appId: string): Promise<ClockOutput> {
  const { clock } = await requireEnvironment(root, appId, "test");
  if (clock === null) return NO_CLOCK;
  const testClock = readClock(clock);
  const status = testClock.atMs === undefined ? "ready" : "advancing";
  return { now: iso(timeOf(testClock, root.now())), status };
}
