import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { ValueOf } from "../../db/query.ts";
import { type Steps, usageCounters } from "../../db/schema.ts";
import type { Unit } from "../amounts/amount.ts";

/** What a user has used of a usage limit, as it is stored. */
export interface Counter {
  readonly limitId: string;
  /** When the window begins that `usedSteps` is of. */
  readonly windowMs: number;
  readonly usedSteps: Steps;
  readonly hasOwnAmount: 0 | 1;
  /** The user's own amount. Null: none at all (Q2). */
  readonly ownAmountSteps: Steps | null;
}

/** What a limit counts of an event, or of a hold (Q3): as it stands in `counted`, by which triggers move the counters. */
export interface Counted {
  readonly limitId: string;
  readonly windowMs: number;
  readonly steps: Steps;
}

/** What is to be counted. */
export interface NewCount extends Counted {
  readonly name: string;
  readonly unit: Unit;
  /** When the window ends. */
  readonly resetsAtMs: number;
  /** The limit's amount. A counter may have the user's own. */
  readonly amountSteps: Steps;
  /** Whether the database refuses it where it would bring the user above the amount (Q4). */
  readonly isJudged: boolean;
}

/** For the column `counted`. Null where nothing counts, as in every environment without limits. */
export function countedJson(counts: readonly NewCount[]): string | null {
  if (counts.length === 0) return null;
  return JSON.stringify(
    counts.map(({ limitId, windowMs, steps, amountSteps, isJudged }) => ({
      ...{ limitId, windowMs, steps, amountSteps },
      ...(isJudged ? { isJudged: 1 } : {}),
    })),
  );
}

/** The same of a charge, which leaves what its hold counted, and counts nothing more. */
export function keptJson(counted: readonly Counted[]): string | null {
  if (counted.length === 0) return null;
  return JSON.stringify(counted.map(({ limitId, windowMs, steps }) => ({ limitId, windowMs, steps, isKept: 1 })));
}

/** Reads stored counts: JSON that Purser wrote. */
export function readCounted(stored: string | null): readonly Counted[] {
  return stored === null ? [] : (JSON.parse(stored) as Counted[]);
}

/** An account's counters, beside the environment's row. In an environment without limits it reads no row. */
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
const NONE: Counters = new Map();

export function readCounters(stored: string | null): Counters {
  if (stored === null || stored === "[]") return NONE;
  // `countersOf` wrote this JSON.
  return new Map((JSON.parse(stored) as Counter[]).map((counter) => [counter.limitId, counter]));
}
