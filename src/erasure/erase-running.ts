import { and, eq, isNull, sql } from "drizzle-orm";
import { clockOf, timesOf } from "../db/clock.ts";
import { computed, drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { environments, erasures } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import type { CronCtx, CronPart, TenantCtx } from "../runtime.ts";
import { continueErasure } from "./continue.ts";

/** How many pages a run of the cron does of all erasures of a database. */
const PAGES_A_RUN_MAX = 4;
const QUERIES_A_PAGE = 60;
const ROWS_OF_PAGE = 8_000;
const ERASURES_MAX = 200;
const MINUTE_MS = 60_000;

const selectRunning = query((value: ValueOf<{ limit: number }>) =>
  drizzle
    .select({
      ...fields(erasures, { erasureId: "id" }),
      ...fields(environments, "id", "appId", "mode"),
      ...computed({ clock: clockOf() }),
    })
    .from(sql`${erasures} INDEXED BY erasures_running`)
    .crossJoin(environments)
    .where(and(isNull(erasures.completedAtMs), eq(environments.id, erasures.environmentId)))
    .orderBy(erasures.startedAtMs)
    .limit(value("limit")),
);

/**
 * Goes on with erasures that are running (E1), a page of each, and from another one every minute. Answers the errors: one that
 * fails takes only its own erasure down, and the next run tries again.
 */
async function eraseRunning(root: CronCtx): Promise<readonly unknown[]> {
  const { db, database, allowance } = root;
  const failures: unknown[] = [];
  const found = await all(db, selectRunning({ limit: ERASURES_MAX }));
  const turn = found.length === 0 ? 0 : Math.floor(root.now() / MINUTE_MS) % found.length;
  const running = [...found.slice(turn), ...found.slice(0, turn)];
  for (let pages = 0; pages < PAGES_A_RUN_MAX; pages++) {
    const one = running.shift();
    if (one === undefined || !allowance.has(QUERIES_A_PAGE)) break;
    const { erasureId, clock, ...row } = one;
    const environment = { ...row, database };
    const ctx: TenantCtx = { ...root, ...timesOf(clock, root), environment, caller: { kind: "cron" } };
    try {
      const isComplete = await continueErasure(ctx, erasureId, { pages: 1, rows: ROWS_OF_PAGE });
      if (!isComplete) running.push(one);
    } catch (error) {
      failures.push(error);
    }
  }
  return failures;
}

export const erasuresPart: CronPart = {
  code: "erasures_not_continued",
  weight: 5,
  queriesOfStep: QUERIES_A_PAGE + 1,
  work: eraseRunning,
};
