import { env } from "cloudflare:workers";
import type { CronPart, SystemCtx } from "../../src/runtime.ts";

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

/** Deletes the cron's walks over this database and their figures, so that the next run starts a new walk. */
export async function forgetWalks(): Promise<void> {
  await env.DB.batch(["business_walks", "business_figures"].map((table) => env.DB.prepare(`DELETE FROM ${table}`)));
}
