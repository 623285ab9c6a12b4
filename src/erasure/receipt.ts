import { and, eq, isNull, sql } from "drizzle-orm";
import { insertAct, newAct } from "../catalog/audit.ts";
import { drizzle, fields, hasRow, query, type ValueOf } from "../db/query.ts";
import { environments, erasures, tombstones } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import { type ErasureKey, readCounts } from "./counts.ts";
import type { ErasureOutput } from "./responses.ts";

export type ErasureRow = typeof erasures.$inferSelect;

export const isErasure = (value: ValueOf<ErasureKey>) =>
  and(eq(erasures.environmentId, value("environmentId")), eq(erasures.id, value("erasureId")));

export const selectErasure = query((value: ValueOf<ErasureKey>) =>
  drizzle.select(fields(erasures)).from(erasures).where(isErasure(value)),
);

/** The erasure that made one of these tombstones, if the tombstone blocks. */
export const selectErasureOf = query((value: ValueOf<{ environmentId: number; hashes: string }>) => {
  const erasureId = sql`(
    SELECT ${tombstones.erasureId} FROM json_each(${value("hashes")}) AS item CROSS JOIN ${tombstones}
    WHERE ${tombstones.environmentId} = ${value("environmentId")} AND ${tombstones.hash} = item.value
      AND ${tombstones.blocks} = 1 LIMIT 1
  )`;
  return drizzle
    .select(fields(erasures))
    .from(erasures)
    .where(and(eq(erasures.environmentId, value("environmentId")), eq(erasures.id, erasureId)));
});

/** D1 can restore a database to any moment of the last 30 days. */
const RECOVERABLE_DAYS = 30;

export const erasureKey = (ctx: TenantCtx, erasureId: string): ErasureKey => ({
  environmentId: ctx.environment.id,
  erasureId,
});

/** The row of an erasure. Throws `not_found`. */
export async function requireErasure(ctx: TenantCtx, erasureId: string): Promise<ErasureRow> {
  const [row] = await all(ctx.db, selectErasure(erasureKey(ctx, erasureId)));
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
    ...readCounts(row.counts, row.keepConsent),
  };
}

/** The state of an erasure, and its receipt, which contains no ids (E6). Throws `not_found`. */
export async function readErasure(ctx: TenantCtx, erasureId: string): Promise<ErasureOutput> {
  return presentErasure(await requireErasure(ctx, erasureId));
}

function presentErasure(row: ErasureRow): ErasureOutput {
  const { completedAtMs, liftedAtMs } = row;
  return {
    ...presentProgress(row),
    reason: row.reason,
    keepConsent: row.keepConsent,
    by: row.actor,
    fingerprint: row.fingerprint,
    startedAt: iso(row.startedAtMs),
    completedAt: completedAtMs === null ? null : iso(completedAtMs),
    recoverableUntil: completedAtMs === null ? null : iso(completedAtMs + RECOVERABLE_DAYS * DAY_MS),
    liftedAt: liftedAtMs === null ? null : iso(liftedAtMs),
  };
}

const isUnlifted = (value: ValueOf<ErasureKey>) => and(isErasure(value), isNull(erasures.liftedAtMs));
const setLifted = query((value: ValueOf<ErasureKey & { nowMs: number }>) =>
  drizzle
    .update(erasures)
    .set({ liftedAtMs: value("nowMs", erasures.liftedAtMs) })
    .where(isUnlifted(value)),
);

const deleteTombstones = query((value: ValueOf<ErasureKey>) =>
  drizzle
    .delete(tombstones)
    .where(and(eq(tombstones.environmentId, value("environmentId")), eq(tombstones.erasureId, value("erasureId")))),
);

/**
 * Writes the fingerprints of the secrets that still have tombstones, in order of their first erasures. It counts the lift, so that
 * the features never equal an earlier text: an isolate would then use what it remembers of erased ids.
 */
export const leaveFeature = query((value: ValueOf<{ environmentId: number }>) => {
  const { features } = environments;
  const { fingerprint } = erasures;
  const standing = sql`(
    SELECT nullif(json_group_array(${fingerprint}), '[]') FROM (
      SELECT ${fingerprint} FROM ${erasures}
      WHERE ${erasures.environmentId} = ${value("environmentId")} AND ${erasures.liftedAtMs} IS NULL
      GROUP BY ${fingerprint} ORDER BY min(${erasures.startedAtMs}), ${fingerprint}
    ) AS ${erasures}
  )`;
  const parts = sql`json_object('lifts', coalesce(${features} ->> '$.lifts', 0) + 1, 'tombstones', json(${standing}))`;
  return drizzle
    .update(environments)
    .set({ features: sql`json_patch(${features}, ${parts})` })
    .where(eq(environments.id, value("environmentId")));
});

const auditErasureLifted = insertAct<ErasureKey>((value) => hasRow(erasures, isUnlifted(value)));

/** Allows writes for the ids of an erasure again (E4). Erased data stays erased. Throws `not_found`, and `changed_meanwhile` while the erasure runs. */
export async function liftErasure(ctx: TenantCtx, erasureId: string): Promise<ErasureOutput> {
  const row = await requireErasure(ctx, erasureId);
  if (row.completedAtMs === null) {
    throw new PurserError("changed_meanwhile", "This erasure is still running. Lift it when it is completed.");
  }
  if (row.liftedAtMs !== null) return presentErasure(row);
  const { caller, environment } = ctx;
  const key = erasureKey(ctx, erasureId);
  const act = {
    appId: environment.appId,
    action: "erasure.lifted" as const,
    target: erasureId,
    details: { mode: environment.mode },
  };
  await batch(ctx.db, [
    ...(caller.kind === "admin" ? [auditErasureLifted({ ...newAct({ ...ctx, caller }, act), ...key })] : []),
    setLifted({ ...key, nowMs: ctx.realNow() }),
    deleteTombstones(key),
    leaveFeature({ environmentId: key.environmentId }),
  ]);
  return presentErasure(await requireErasure(ctx, erasureId));
}
