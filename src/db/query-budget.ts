import { temporarilyUnavailable } from "../errors.ts";

/** Counts the queries of one invocation, over all databases. */
export interface QueryBudget {
  readonly left: () => number;
  /** Counts queries before they are sent. Throws `temporarily_unavailable` where the platform would refuse them. */
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
