import type { Outbox, SystemCtx } from "../runtime.ts";
import { attemptAgain, attemptAll } from "./attempt.ts";
import { readLeased } from "./leased.ts";
import { FIRST_ATTEMPTS_MAX } from "./outbox.ts";

/** The platform ends an invocation 30 seconds after its answer, and an attempt takes 10. */
const BEGIN_WITHIN_MS = 18_000;

/** Makes the first attempts of what an invocation wrote, behind its answer (H4). The cron makes those that are beyond. */
export async function makeFirstAttempts(root: SystemCtx, outbox: Outbox): Promise<void> {
  const untilMs = root.now() + BEGIN_WITHIN_MS;
  const byDatabase = Map.groupBy(outbox.slice(0, FIRST_ATTEMPTS_MAX), ({ database }) => database);
  for (const { index, db } of root.databases) {
    const own = byDatabase.get(index) ?? [];
    if (own.length === 0) continue;
    const ours = await readLeased(root, db, own, FIRST_ATTEMPTS_MAX);
    await attemptAgain(root, db, await attemptAll(root, db, ours, untilMs), untilMs);
  }
}
