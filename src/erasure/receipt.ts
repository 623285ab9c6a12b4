import { and, eq, sql } from "drizzle-orm";
import { drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { erasures, tombstones } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import { type ErasureCounts, readCounts } from "./counts.ts";
import type { ErasureKey } from "./page-rows.ts";

export interface ErasureOutput extends ErasureCounts {
  readonly reason: "consent_withdrawn" | "legal_duty" | "not_needed" | "objection" | "request" | "unlawful" | null;
  readonly keepConsent: boolean;
  readonly by: string;
  readonly fingerprint: string;
  readonly startedAt: string;
  readonly completedAt: string | null;
  readonly recoverableUntil: string | null;
  readonly liftedAt: string | null;
  readonly erasureId: string;
  readonly status: "completed" | "running";
  readonly distinctIdCount: number;
}

export type ErasureRow = typeof erasures.$inferSelect;

export const isErasure = (value: ValueOf<ErasureKey>) =>
  and(eq(erasures.environmentId, value("environmentId")), eq(erasures.id, value("erasureId")));

export const selectErasure = query((value: ValueOf<ErasureKey>) =>
  drizzle.select(fields(erasures)).from(erasures).where(isErasure(value)),
);

/** The erasure that added one of these tombstones, if the tombstone blocks. */
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

export const erasureKey = (ctx: TenantCtx, erasureId: string): ErasureKey => ({
  environmentId: ctx.environment.id,
  erasureId,
});

/** Returns the row of an erasure. Throws `not_found`. */
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

/** Returns the state of an erasure, and its receipt, which contains no ids (E6). Throws `not_found`. */
export async function readErasure(ctx: TenantCtx, erasureId: string): Promise<ErasureOutput> {
  return presentErasure(ctx, await requireErasure(ctx, erasureId));
}

export function presentErasure({ settings }: Pick<TenantCtx, "settings">, row: ErasureRow): ErasureOutput {
  const { completedAtMs, liftedAtMs } = row;
  return {
    ...presentProgress(row),
    reason: row.reason,
    keepConsent: row.keepConsent,
    by: row.actor,
    fingerprint: row.fingerprint,
    startedAt: iso(row.startedAtMs),
    completedAt: completedAtMs === null ? null : iso(completedAtMs),
    recoverableUntil: completedAtMs === null ? null : iso(completedAtMs + settings.recoveryDays * DAY_MS),
    liftedAt: liftedAtMs === null ? null : iso(liftedAtMs),
  };
}
