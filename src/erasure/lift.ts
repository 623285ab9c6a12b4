import { and, eq, isNull, sql } from "drizzle-orm";
import { insertAct, newAct } from "../catalog/audit/audit-statement.ts";
import { drizzle, hasRow, query, type ValueOf } from "../db/query.ts";
import { environments, erasures, tombstones } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { TenantCtx } from "../runtime.ts";
import type { ErasureKey } from "./ids-of-page.ts";
import { isErasure, keyOf, presentErasure, requireErasure } from "./receipt.ts";
import type { ErasureOutput } from "./responses.ts";

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
 * The fingerprints of the secrets under which tombstones are left, in the order of their first erasures. It counts the lift, so
 * that no features of before come back: an isolate would go on with what it remembers of the erased.
 */
const leaveFeature = query((value: ValueOf<{ environmentId: number }>) => {
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

const audit = insertAct<ErasureKey>((value) => hasRow(erasures, isUnlifted(value)));

/** Lets the ids of an erasure begin anew (E4). What was erased stays so. Throws `not_found`, and `changed_meanwhile` while it runs. */
export async function liftErasure(ctx: TenantCtx, erasureId: string): Promise<ErasureOutput> {
  const row = await requireErasure(ctx, erasureId);
  if (row.completedAtMs === null) {
    throw new PurserError("changed_meanwhile", "This erasure is still running. Lift it when it is completed.");
  }
  if (row.liftedAtMs !== null) return presentErasure(row);
  const { caller, environment } = ctx;
  const key = keyOf(ctx, erasureId);
  const act = {
    appId: environment.appId,
    action: "erasure.lifted" as const,
    target: erasureId,
    details: { mode: environment.mode },
  };
  await batch(ctx.db, [
    ...(caller.kind === "admin" ? [audit({ ...newAct({ ...ctx, caller }, act), ...key })] : []),
    setLifted({ ...key, nowMs: ctx.realNow() }),
    deleteTombstones(key),
    leaveFeature({ environmentId: key.environmentId }),
  ]);
  return presentErasure(await requireErasure(ctx, erasureId));
}
