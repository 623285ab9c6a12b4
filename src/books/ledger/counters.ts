import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { ValueOf } from "../../db/query.ts";
import { type Minor, members, usageCounters } from "../../db/schema.ts";
import type { Unit } from "../amounts/amount.ts";
import type { NamedMembers } from "./payer-members.ts";

/** A user's stored usage against a usage limit. */
export interface Counter {
  readonly limitId: string;
  /** The member whose usage it is. Null for the user's (ME2). */
  readonly memberId: string | null;
  /** The end of the window that `usedMinor` counts. It stays if the rules of the limit's time zone change (TZ1). */
  readonly endMs: number;
  readonly usedMinor: Minor;
  readonly hasOverride: 0 | 1;
  /** The user's override. Null means unlimited (Q2). */
  readonly overrideMinor: Minor | null;
}

/** The amount that an event or a hold counts towards a limit (Q3). It is stored in `counted`, from which triggers update counters. */
export interface Counted {
  readonly limitId: string;
  /** The end of the window. */
  readonly endMs: number;
  readonly minor: Minor;
  /** Whether it counts for the member of its row (ME2). */
  readonly isMember?: 1;
}

/** An amount to count against a limit. */
export interface NewCount extends Counted {
  /** The member whose usage it is. Null for the user's. */
  readonly memberId: string | null;
  readonly name: string;
  readonly unit: Unit;
  /** The limit's amount. A counter may have the user's own. */
  readonly amountMinor: Minor;
  /** Whether the database rejects the write when the count would exceed the amount (Q4). */
  readonly isEnforced: boolean;
}

/** Returns the value of the column `counted`. Null when nothing is counted, as in every environment without limits. */
export function countedJson(counts: readonly NewCount[]): string | null {
  if (counts.length === 0) return null;
  return JSON.stringify(
    counts.map(({ limitId, endMs, minor, amountMinor, memberId, isEnforced }) => ({
      ...{ limitId, endMs, minor, amountMinor },
      // The names that the database's triggers read.
      ...(isEnforced ? { isEnforced: 1 } : {}),
      ...(memberId === null ? {} : { isMember: 1 }),
    })),
  );
}

/** Returns the value of `counted` for a charge, which keeps the amounts that its hold counted and adds none. */
export function keptJson(counted: readonly Counted[]): string | null {
  if (counted.length === 0) return null;
  return JSON.stringify(
    counted.map(({ limitId, endMs, minor, isMember }) => ({ limitId, endMs, minor, isMember, isKept: 1 })),
  );
}

/** Reads stored counts: JSON that Purser wrote. */
export function readCounted(stored: string | null): readonly Counted[] {
  return stored === null ? [] : (JSON.parse(stored) as Counted[]);
}

/** Returns SQL for an account's counters, in a query that has the environment's row. In an environment without limits it reads no row. */
export const countersOf = (
  value: ValueOf<{ environmentId: number }>,
  settingsSnapshot: SQL | SQLiteColumn,
  account: SQL | SQLiteColumn,
) => {
  const { environmentId, limitId, accountId, memberNumber, endMs, usedMinor, hasOverride, overrideMinor } =
    usageCounters;
  return sql<string | null>`(
    SELECT json_group_array(json_object('limitId', ${limitId}, 'memberId', NULL, 'endMs', ${endMs}, 'usedMinor', ${usedMinor},
      'hasOverride', ${hasOverride}, 'overrideMinor', ${overrideMinor}))
    FROM json_each(${settingsSnapshot}, '$.limits') AS known CROSS JOIN ${usageCounters}
      ON ${environmentId} = ${value("environmentId")} AND ${limitId} = known.value ->> 'id' AND ${accountId} = ${account}
      AND ${memberNumber} = 0
  )`;
};

/** Returns SQL for the counters of the members that a write names (`namedMembers`). Without a limit per member it reads no row. */
export const countersOfMembers = (
  value: ValueOf<{ environmentId: number }>,
  named: NamedMembers,
  settingsSnapshot: SQL | SQLiteColumn,
) => {
  const { environmentId, limitId, accountId, memberNumber, endMs, usedMinor, hasOverride, overrideMinor } =
    usageCounters;
  return sql<string | null>`(
    SELECT json_group_array(json_object('limitId', ${limitId}, 'memberId', ${named.memberId}, 'endMs', ${endMs},
      'usedMinor', ${usedMinor}, 'hasOverride', ${hasOverride}, 'overrideMinor', ${overrideMinor}))
    FROM ${named.from} CROSS JOIN json_each(${settingsSnapshot}, '$.limits') AS known ON known.value ->> 'per' = 'member'
    CROSS JOIN ${usageCounters} ON ${environmentId} = ${value("environmentId")} AND ${limitId} = known.value ->> 'id'
      AND ${accountId} = ${named.account} AND ${memberNumber} = ${members.memberNumber}
    WHERE ${settingsSnapshot} LIKE '%"per":"member"%'
  )`;
};

/** The key of a counter in `Counters`. */
export const counterKey = (limitId: string, memberId: string | null): string =>
  memberId === null ? limitId : `${limitId} ${memberId}`;

/** The counters of a row, by `counterKey`. */
export type Counters = ReadonlyMap<string, Counter>;
const NO_COUNTERS: Counters = new Map();

/** Reads the texts of `countersOf` and `countersOfMembers`. */
export function readCounters(...stored: readonly (string | null)[]): Counters {
  // Those functions wrote this JSON.
  const counters = stored.flatMap((text) => (text === null || text === "[]" ? [] : (JSON.parse(text) as Counter[])));
  if (counters.length === 0) return NO_COUNTERS;
  return new Map(counters.map((counter) => [counterKey(counter.limitId, counter.memberId), counter]));
}
