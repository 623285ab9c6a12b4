import { temporarilyUnavailable } from "../errors.ts";
import type { CronCtx, Environment, SystemCtx, TenantCtx } from "../runtime.ts";
import { timesOf } from "./features.ts";

/** Counts the queries of one invocation, over all databases. */
export interface QueryBudget {
  readonly left: () => number;
  /** Counts queries before they are sent. Throws `temporarily_unavailable` if the platform would refuse them. */
  readonly spend: (queries: number) => void;
}

export function queryBudget(queriesMax: number): QueryBudget {
  let left = queriesMax;
  return {
    left: () => left,
    spend: (queries) => {
      if (queries > left) throw temporarilyUnavailable("No queries are left.", undefined, "queries_exhausted");
      left -= queries;
    },
  };
}

/**
 * Returns the context of the cron's work in an environment, with the environment's time. `clock` is its test clock, as text.
 */
export function cronIn(root: SystemCtx, environment: Environment, clock: string | null): TenantCtx {
  return { ...root, ...timesOf(clock, root), environment, caller: { kind: "cron" } };
}

/**
 * Works on each row in turn, while at least `queries` queries are left. Returns the errors: a failure stops only the work on
 * its own row, and the next run tries that row again.
 */
export async function workOnEach<Row>(
  { allowance }: CronCtx,
  rows: readonly Row[],
  queries: number,
  work: (row: Row) => Promise<unknown>,
): Promise<unknown[]> {
  const failures: unknown[] = [];
  for (const row of rows) {
    if (!allowance.has(queries)) break;
    try {
      await work(row);
    } catch (error) {
      failures.push(error);
    }
  }
  return failures;
}
