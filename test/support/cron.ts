import { env } from "cloudflare:workers";
import { sumDays } from "../../src/books/usage/sum-days.ts";
import { MINUTE_MS } from "../../src/lib/time.ts";
import type { CronPart, Environment, SystemCtx } from "../../src/runtime.ts";

/** The time limit of a run. */
const RUN_MS = 50_000;

/** Runs one part of the cron's work, in every database, without a limit of queries. Returns its errors. */
export async function runPart(work: CronPart["work"], root: SystemCtx): Promise<readonly unknown[]> {
  const failures: unknown[] = [];
  for (const { db, index: database } of root.databases) {
    const allowance = { has: () => true, untilMs: root.now() + RUN_MS };
    failures.push(...(await work({ ...root, db, database, allowance }).catch((error: unknown) => [error])));
  }
  return failures;
}

/** The accounts by which the beginning of a run of the day sums moves on each minute. */
const STRIDE = 7_919;
const PAGES_MAX = 5;

/**
 * Sums the days of one environment. A run begins at an account that depends on the minute: here at the environment's first, because
 * other tests may have left more events than a run takes.
 */
export async function sumDaysOf(root: SystemCtx, { id }: Pick<Environment, "id">): Promise<readonly unknown[]> {
  const found = await env.DB.prepare(
    "SELECT min(id) AS first, (SELECT max(id) + 1 FROM accounts) AS accounts FROM accounts WHERE environment_id = ?",
  )
    .bind(id)
    .first<{ first: number; accounts: number }>();
  const { first = 0, accounts = 1 } = found ?? {};
  const beginning = (minute: number) => (minute * STRIDE) % accounts;
  let best = Math.floor(root.now() / MINUTE_MS);
  for (let minute = best, end = best + accounts; minute < end && beginning(best) !== first; minute++) {
    if (beginning(minute) <= first && !(beginning(best) <= first && beginning(best) > beginning(minute))) best = minute;
  }
  let pages = 0;
  const allowance = { has: () => ++pages <= PAGES_MAX, untilMs: Infinity };
  return runPart((ctx) => sumDays({ ...ctx, allowance, now: () => best * MINUTE_MS }), root);
}

/** Deletes the cron's walks over this database and their figures, so that the next run starts a new walk. */
export async function forgetWalks(): Promise<void> {
  await env.DB.batch(["business_walks", "business_figures"].map((table) => env.DB.prepare(`DELETE FROM ${table}`)));
}
