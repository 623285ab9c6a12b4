import { auditStatement, newAct } from "../catalog/audit/audit-statement.ts";
import { batch, statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { TenantCtx } from "../runtime.ts";
import type { ErasureKey } from "./ids.ts";
import { keyOf, presentErasure, requireErasure } from "./receipt.ts";
import type { ErasureOutput } from "./responses.ts";

const setLifted = statement<ErasureKey & { nowMs: number }>`
  UPDATE erasures SET lifted_at_ms = CAST(:nowMs AS INTEGER)
  WHERE environment_id = :environmentId AND id = :erasureId AND lifted_at_ms IS NULL`;

const deleteTombstones = statement<ErasureKey>`
  DELETE FROM tombstones WHERE environment_id = :environmentId AND erasure_id = :erasureId`;

/**
 * The fingerprints of the secrets under which tombstones are left, in the order of their first erasures. It counts the lift, so
 * that no features of before come back: an isolate would go on with what it remembers of the erased.
 */
const leaveFeature = statement<{ environmentId: number }>`
  UPDATE environments SET features = json_patch(features, json_object('lifts', coalesce(features ->> '$.lifts', 0) + 1, 'tombstones', json((
    SELECT nullif(json_group_array(fingerprint), '[]') FROM (
      SELECT fingerprint FROM erasures WHERE environment_id = :environmentId AND lifted_at_ms IS NULL
      GROUP BY fingerprint ORDER BY min(started_at_ms), fingerprint
    )
  )))) WHERE id = :environmentId`;

const audit = auditStatement<ErasureKey>(
  "EXISTS (SELECT 1 FROM erasures WHERE environment_id = :environmentId AND id = :erasureId AND lifted_at_ms IS NULL)",
);

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
