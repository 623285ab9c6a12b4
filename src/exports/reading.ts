import { and, eq, type SQL, sql } from "drizzle-orm";
import { hasRow, type ValueOf } from "../db/query.ts";
import { distinctIds } from "../db/schema.ts";
import type { Db } from "../db/sql.ts";

/** The values with which every page is read. */
export interface Reading {
  readonly db: Db;
  readonly environmentId: number;
  /** The requested id, and when it was first seen. Null if it has no record. */
  readonly distinctId: string;
  readonly firstSeenAtMs: number | null;
  /** The fewest rows of a page that keep the export within its number of queries (budget.ts). */
  readonly pageRowsMin: number;
}

/** The named values of `isStillThere`. */
export type StillThere = { environmentId: number; askedId: string; firstSeenAtMs: number | null };

export const stillThere = ({ environmentId, distinctId, firstSeenAtMs }: Reading): StillThere => ({
  environmentId,
  askedId: distinctId,
  firstSeenAtMs,
});

/**
 * Whether the requested id was neither deleted nor created again after the snapshot. Lists are append-only, so the seqs
 * show every other change. The condition is constant within a statement, so it costs one row.
 */
export function isStillThere(value: ValueOf<StillThere>): SQL {
  const asked = and(
    eq(distinctIds.environmentId, value("environmentId")),
    eq(distinctIds.distinctId, value("askedId")),
    eq(distinctIds.firstSeenAtMs, value("firstSeenAtMs")),
  );
  return sql`(${value("firstSeenAtMs")} IS NULL OR ${hasRow(distinctIds, asked)})`;
}

/** The seqs of one id's rows of a list at the snapshot: those after `after` up to `last`. */
export interface Bound {
  readonly id: string;
  /** 0, but for analytics events that were deleted because of their age. */
  readonly after: number;
  readonly last: number;
}
