import type { CronPart, SystemCtx } from "../../src/runtime.ts";

/** A run has so long. */
const RUN_MS = 50_000;

/** A part of the cron's work alone, in every database, with as many queries as it likes. Answers its errors. */
export async function runPart(work: CronPart["work"], root: SystemCtx): Promise<readonly unknown[]> {
  const failures: unknown[] = [];
  for (const { db, index: database } of root.databases) {
    const allowance = { has: () => true, untilMs: root.now() + RUN_MS };
    failures.push(...(await work({ ...root, db, database, allowance }).catch((error: unknown) => [error])));
  }
  return failures;
}
