import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { ValueOf } from "../../db/query.ts";
import { type Steps, usageCounters } from "../../db/schema.ts";
import type { Unit } from "../amounts/amount.ts";

/** A user's stored usage against a usage limit. */
export interface Counter {
  readonly limitId: string;
  /** The beginning of the window that `usedSteps` counts. */
  readonly windowMs: number;
  readonly usedSteps: Steps;
  readonly hasOwnAmount: 0 | 1;
  /** The user's own amount. Null means unlimited (Q2). */
  readonly ownAmountSteps: Steps | null;
}

/** The amount that an event or a hold counts towards a limit (Q3). It is stored in `counted`, from which triggers update counters. */
export interface Counted {
  readonly limitId: string;
  readonly windowMs: number;
  readonly steps: Steps;
}

/** An amount to count against a limit. */
export interface NewCount extends Counted {
  readonly name: string;
  readonly unit: Unit;
  /** When the window ends. */
  readonly resetsAtMs: number;
  /** The limit's amount. A counter may have the user's own. */
  readonly amountSteps: Steps;
  /** Whether the database refuses the write when the count would exceed the amount (Q4). */
  readonly isEnforced: boolean;
}

/** Returns the value of the column `counted`. Null when nothing is counted, as in every environment without limits. */
export function countedJson(counts: readonly NewCount[]): string | null {
  if (counts.length === 0) return null;
  return JSON.stringify(
    counts.map(({ limitId, windowMs, steps, amountSteps, isEnforced }) => ({
      ...{ limitId, windowMs, steps, amountSteps },
      // The name that the database's triggers read.
      ...(isEnforced ? { isJudged: 1 } : {}),
    })),
  );
}

/** Returns the value of `counted` for a charge, which keeps the amounts that its hold counted and adds none. */
export function keptJson(counted: readonly Counted[]): string | null {
  if (counted.length === 0) return null;
  return JSON.stringify(counted.map(({ limitId, windowMs, steps }) => ({ limitId, windowMs, steps, isKept: 1 })));
}

/** Reads stored counts: JSON that Purser wrote. */
export function readCounted(stored: string | null): readonly Counted[] {
  return stored === null ? [] : (JSON.parse(stored) as Counted[]);
}

/** Returns SQL for an account's counters, in a query that has the environment's row. In an environment without limits it reads no row. */
export const countersOf = (
  value: ValueOf<{ environmentId: number }>,
  features: SQL | SQLiteColumn,
  account: SQL | SQLiteColumn,
) => {
  const { environmentId, limitId, accountId, windowMs, usedSteps, hasOwnAmount, ownAmountSteps } = usageCounters;
  return sql<string | null>`(
    SELECT json_group_array(json_object('limitId', ${limitId}, 'windowMs', ${windowMs}, 'usedSteps', ${usedSteps},
      'hasOwnAmount', ${hasOwnAmount}, 'ownAmountSteps', ${ownAmountSteps}))
    FROM json_each(${features}, '$.limits') AS known CROSS JOIN ${usageCounters}
      ON ${environmentId} = ${value("environmentId")} AND ${limitId} = known.value ->> 'id' AND ${accountId} = ${account}
  )`;
};

/** The counters of a row, by their limits. */
export type Counters = ReadonlyMap<string, Counter>;
const NO_COUNTERS: Counters = new Map();

export function readCounters(stored: string | null): Counters {
  if (stored === null || stored === "[]") return NO_COUNTERS;
  // `countersOf` wrote this JSON.
  return new Map((JSON.parse(stored) as Counter[]).map((counter) => [counter.limitId, counter]));
}
