import { all, type RowOf, select, statement } from "../db/sql.ts";
import { erasures } from "../db/tables.ts";
import { PurserError } from "../errors.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import { readCounts } from "./counts.ts";
import type { ErasureOutput } from "./responses.ts";

const columns = {
  id: erasures.id,
  reason: erasures.reason,
  keepConsent: erasures.keepConsent,
  actor: erasures.actor,
  fingerprint: erasures.fingerprint,
  isCollected: erasures.isCollected,
  idCount: erasures.idCount,
  counts: erasures.counts,
  startedAtMs: erasures.startedAtMs,
  completedAtMs: erasures.completedAtMs,
  liftedAtMs: erasures.liftedAtMs,
};
export type ErasureRow = RowOf<typeof columns>;

type Key = { environmentId: number; erasureId: string };

export const selectErasure = statement<Key, ErasureRow>`
  SELECT ${select(columns)} FROM erasures WHERE environment_id = :environmentId AND id = :erasureId`;

/** The erasure that left one of these tombstones, if it blocks. */
export const selectErasureOf = statement<{ environmentId: number; hashes: string }, ErasureRow>`
  SELECT ${select(columns, "e")} FROM erasures AS e
  WHERE e.environment_id = :environmentId AND e.id = (
    SELECT t.erasure_id FROM json_each(:hashes) AS h CROSS JOIN tombstones AS t
    WHERE t.environment_id = :environmentId AND t.hash = h.value AND t.blocks = 1 LIMIT 1
  )`;

/** D1 restores a database as it was at any moment of the last 30 days. */
const RECOVERABLE_DAYS = 30;

export const keyOf = (ctx: TenantCtx, erasureId: string): Key => ({ environmentId: ctx.environment.id, erasureId });

/** The row of an erasure. Throws `not_found`. */
export async function requireErasure(ctx: TenantCtx, erasureId: string): Promise<ErasureRow> {
  const [row] = await all(ctx.db, selectErasure(keyOf(ctx, erasureId)));
  if (row !== undefined) return row;
  throw new PurserError(
    "not_found",
    "The application has no such erasure in this mode. Ids are compared exactly, and begin with `era_`.",
    { param: "erasureId" },
  );
}

export function presentProgress(row: ErasureRow) {
  return {
    erasureId: row.id,
    status: row.completedAtMs === null ? ("running" as const) : ("completed" as const),
    distinctIdCount: row.idCount,
    ...readCounts(row.counts, row.keepConsent === 1),
  };
}

/** The state of an erasure, and its receipt, which names nobody (E6). Throws `not_found`. */
export async function readErasure(ctx: TenantCtx, erasureId: string): Promise<ErasureOutput> {
  return presentErasure(await requireErasure(ctx, erasureId));
}

export function presentErasure(row: ErasureRow): ErasureOutput {
  const { completedAtMs, liftedAtMs } = row;
  return {
    ...presentProgress(row),
    reason: row.reason,
    keepConsent: row.keepConsent === 1,
    by: row.actor,
    startedAt: iso(row.startedAtMs),
    completedAt: completedAtMs === null ? null : iso(completedAtMs),
    recoverableUntil: completedAtMs === null ? null : iso(completedAtMs + RECOVERABLE_DAYS * DAY_MS),
    liftedAt: liftedAtMs === null ? null : iso(liftedAtMs),
  };
}
