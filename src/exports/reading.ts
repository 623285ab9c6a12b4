import type { Db } from "../db/sql.ts";

/** What every page is read with. */
export interface Reading {
  readonly db: Db;
  readonly environmentId: number;
  /** The id that was asked for, and when its record says that it was first seen; null where no record is kept. */
  readonly distinctId: string;
  readonly firstSeenAtMs: number | null;
  /** So many rows a page, at the least, keep the whole export within its queries (budget.ts). */
  readonly pageRowsMin: number;
}

/** The values that `isStillThere` names. */
export type StillThere = { environmentId: number; askedId: string; firstSeenAtMs: number | null };

export const stillThere = ({ environmentId, distinctId, firstSeenAtMs }: Reading): StillThere => ({
  environmentId,
  askedId: distinctId,
  firstSeenAtMs,
});

/**
 * SQL: whoever was asked for is not erased meanwhile, nor known anew. Rows of a list are appended only, so their seq tell the
 * rest. Constant within a statement, so it costs one row.
 */
export const isStillThere = `(:firstSeenAtMs IS NULL OR EXISTS (
    SELECT 1 FROM distinct_ids
    WHERE environment_id = :environmentId AND distinct_id = :askedId AND first_seen_at_ms = :firstSeenAtMs))`;

/** How far one id's rows of a list reached at the moment of the snapshot: their seq run from 1 to `last`. */
export interface Bound {
  readonly id: string;
  readonly last: number;
}
