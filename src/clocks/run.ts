import { sql } from "drizzle-orm";
import { clockOf, readClock } from "../db/clock.ts";
import { asInteger, computed, drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { environments } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import type { CronCtx, CronPart } from "../runtime.ts";
import { advanceClock, QUERIES_A_STEP, settleAllDue } from "./advance.ts";

const CLOCKS_A_RUN_MAX = 100;
const MINUTE_MS = 60_000;

/** The environments with a test clock: first those that are being moved, then in an order that differs from run to run. */
const selectClocked = query((value: ValueOf<{ run: number; limit: number }>) => {
  const { id, features } = environments;
  return drizzle
    .select({
      ...fields(environments, "id", "appId", "mode"),
      ...computed({ clock: sql<string>`${clockOf()}` }),
    })
    .from(sql`${environments} INDEXED BY environments_clock`)
    .where(sql`${features} ->> '$.clock' IS NOT NULL`)
    .orderBy(sql`${features} ->> '$.clock.atMs' IS NULL`, sql`(${id} + ${asInteger(value("run"))}) * 104729 % 15485863`)
    .limit(value("limit"));
});

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
