import { clockSql, readClock } from "../db/clock.ts";
import { all, statement } from "../db/sql.ts";
import type { CronCtx, CronPart, Mode } from "../runtime.ts";
import { advanceClock, QUERIES_A_STEP, settleAllDue } from "./advance.ts";

const CLOCKS_A_RUN_MAX = 100;
const MINUTE_MS = 60_000;

type Clocked = { id: number; appId: string; mode: Mode; clock: string };

/** The environments with a test clock: first those that are being moved, then in an order that differs from run to run. */
const selectClocked = statement<{ run: number; limit: number }, Clocked>`
  SELECT id, app_id AS appId, mode, ${clockSql("features")} AS clock
  FROM environments INDEXED BY environments_clock WHERE features ->> '$.clock' IS NOT NULL
  ORDER BY features ->> '$.clock.atMs' IS NULL, (id + CAST(:run AS INTEGER)) * 104729 % 15485863
  LIMIT CAST(:limit AS INTEGER)`;

/**
 * Goes on with the test clocks that are being moved, and does what is due in the environments whose clock runs (D3). Answers the
 * errors of environments, which take only their own down.
 */
async function runClocks(root: CronCtx): Promise<readonly unknown[]> {
  const { allowance, database } = root;
  const failures: unknown[] = [];
  const run = Math.floor(root.now() / MINUTE_MS);
  for (const { clock, ...row } of await all(root.db, selectClocked({ run, limit: CLOCKS_A_RUN_MAX }))) {
    if (!allowance.has(QUERIES_A_STEP)) break;
    const environment = { ...row, database };
    const isMoved = readClock(clock).atMs !== undefined;
    const done = isMoved
      ? advanceClock(root, environment, allowance)
      : settleAllDue(root, environment, clock, allowance);
    await done.catch((error: unknown) => failures.push(error));
  }
  return failures;
}

export const clocksPart: CronPart = {
  code: "clocks_not_run",
  weight: 3,
  queriesOfStep: QUERIES_A_STEP + 2,
  work: runClocks,
};
