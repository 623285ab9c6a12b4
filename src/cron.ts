import { oldSealsPart } from "./auth/secrets.ts";
import { systemCtx } from "./auth/system-ctx.ts";
import { expiriesPart } from "./books/alerts/find-expiries.ts";
import { offsetsPart } from "./books/limits/refresh-offsets.ts";
import { periodsPart } from "./books/recurring/grant-due.ts";
import { statementsPart } from "./books/statements/make-statements.ts";
import { holdsPart } from "./books/usage/expire.ts";
import { daySumsPart } from "./books/usage/sum-days.ts";
import { clocksPart } from "./clocks/advance.ts";
import { oldFaultsPart, type QueryBudget, queryBudget, reportFailures } from "./db/cron-work.ts";
import { erasuresPart } from "./erasure/erase-running.ts";
import { oldLinkEndsPart } from "./exports/end-links.ts";
import { MINUTE_MS } from "./lib/time.ts";
import { oldStripeEventsPart } from "./payments/log.ts";
import { unmatchedPart } from "./payments/report-unmatched.ts";
import { oldEventsPart, replacedEventsPart } from "./people/capture/delete-old-events.ts";
import { sizePart } from "./people/limits/analytics-limits.ts";
import { type CronPart, createRuntime, type OpenDatabase, type Runtime, type SystemCtx } from "./runtime.ts";
import { oldMessagesPart } from "./webhooks/delete-old-messages.ts";
import { deliveriesPart } from "./webhooks/deliver-due.ts";

/** How many queries a Worker may send in one invocation. */
const QUERIES_MAX = 1_000;
/** The queries kept for steps that take more than planned, and for retries after a fault. */
const QUERIES_SPARE = 100;
/** How long a run may take: runs start every minute. */
const RUN_MS = 50_000;

/**
 * The parts, in the order of a run. The last part sends the messages that the others wrote; it runs again if other parts
 * continue after it.
 */
export const cronParts: readonly CronPart[] = [
  sizePart,
  periodsPart,
  holdsPart,
  expiriesPart,
  clocksPart,
  erasuresPart,
  unmatchedPart,
  statementsPart,
  daySumsPart,
  offsetsPart,
  oldMessagesPart,
  oldStripeEventsPart,
  oldEventsPart,
  replacedEventsPart,
  oldLinkEndsPart,
  oldSealsPart,
  oldFaultsPart,
  deliveriesPart,
];

const cronRuntime = createRuntime();

/** A part, and the databases in which it has more to do. */
interface Work {
  readonly part: CronPart;
  readonly databases: readonly OpenDatabase[];
}

/**
 * Runs the cron's work, once a minute, in every database (D2). All parts share the queries of the invocation: each has its share
 * in every run, and unused queries go to parts that have more to do. If a share is too small for a step in every database, the
 * databases take turns by the minute, so that none waits forever.
 */
export async function scheduled(
  env: Env,
  runtime: Runtime = cronRuntime,
  parts: readonly CronPart[] = cronParts,
): Promise<void> {
  const budget = queryBudget(QUERIES_MAX);
  const root = systemCtx(env, runtime, budget.spend);
  const untilMs = root.now() + RUN_MS;
  const turn = Math.floor(root.now() / MINUTE_MS) % root.databases.length;
  const databases = [...root.databases.slice(turn), ...root.databases.slice(0, turn)];
  let works: readonly Work[] = parts.map((part) => ({ part, databases }));
  let passes = 0;
  for (let before = Infinity; works.length > 0 && budget.left() < before; passes++) {
    before = budget.left();
    works = await shareOut(root, budget, works, untilMs);
  }
  const senders = parts.filter((part) => part === deliveriesPart).map((part) => ({ part, databases }));
  if (passes > 1 && senders.length > 0) await shareOut(root, budget, senders, untilMs);
}

/** Gives each part its share of the remaining queries. Returns the work that has more to do. */
async function shareOut(
  root: SystemCtx,
  budget: QueryBudget,
  works: readonly Work[],
  untilMs: number,
): Promise<readonly Work[]> {
  const waiting: Work[] = [];
  let weights = works.reduce((sum, { part }) => sum + part.weight, 0);
  for (const { part, databases } of works) {
    let share = Math.floor(((budget.left() - QUERIES_SPARE) * part.weight) / weights);
    weights -= part.weight;
    const unfinished: OpenDatabase[] = [];
    for (const [index, database] of databases.entries()) {
      const left = databases.length - index;
      const queries = Math.max(Math.floor(share / left), part.queriesOfStep);
      const before = budget.left();
      const hasMore =
        queries > share ||
        (await workIn(root, database, part, {
          ...{ budget, downTo: before - queries },
          untilMs: root.now() + (untilMs - root.now()) / left,
        }));
      if (hasMore) unfinished.push(database);
      share -= before - budget.left();
    }
    if (unfinished.length > 0) waiting.push({ part, databases: unfinished });
  }
  return waiting;
}

interface Limits {
  readonly budget: QueryBudget;
  /** The number of queries in the budget that must remain for others. */
  readonly downTo: number;
  readonly untilMs: number;
}

/** Runs a part in one database. Returns whether it has more to do than its queries allowed. */
async function workIn(
  root: SystemCtx,
  database: OpenDatabase,
  part: CronPart,
  { budget, downTo, untilMs }: Limits,
): Promise<boolean> {
  let hasMore = false;
  const hasQueries = (queries: number) => {
    const isEnough = budget.left() - queries >= downTo;
    hasMore ||= !isEnough;
    return isEnough;
  };
  const { db, index } = database;
  const ctx = { ...root, db, databases: [database], database: index, allowance: { has: hasQueries, untilMs } };
  reportFailures(part.code, await part.work(ctx).catch((error: unknown) => [error]));
  return hasMore;
}
