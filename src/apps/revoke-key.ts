import { auditStatement, newAct } from "../audit/audit-statement.ts";
import { batch, fragment, nowMsSql, statement } from "../db/sql.ts";
import type { AdminCtx } from "../runtime.ts";
import { requireApp } from "./app.ts";
import { presentKey } from "./key.ts";
import { noSuchKey, selectKey } from "./read-key.ts";
import type { KeyOutput } from "./responses.ts";

const isInForce = fragment`environment_id IN (SELECT id FROM environments WHERE app_id = :appId) AND id = :keyId
  AND revoked_at_ms IS NULL`;
const audit = auditStatement<{ keyId: string }>(`EXISTS (SELECT 1 FROM api_keys WHERE ${isInForce})`);
const revoke = statement<{ appId: string; keyId: string; nowMs: number }>`
  UPDATE api_keys SET revoked_at_ms = ${nowMsSql} WHERE ${isInForce}`;

/**
 * Revokes a key: in force at once wherever the primary is asked, and on a replica as soon as it knows (W3a). Again: as it
 * was. Throws `not_found`.
 */
export async function revokeKey(admin: AdminCtx, appId: string, keyId: string): Promise<KeyOutput> {
  const [, , [row]] = await batch(admin.db, [
    audit({ ...newAct(admin, { appId, action: "key.revoked", target: keyId }), keyId }),
    revoke({ appId, keyId, nowMs: admin.now() }),
    selectKey({ appId, keyId }),
  ]);
  if (row !== undefined) return presentKey(row);
  await requireApp(admin, appId);
  throw noSuchKey();
}
