import { and, eq, inArray, isNull } from "drizzle-orm";
import { drizzle, fields, hasRow, query, type ValueOf } from "../../db/query.ts";
import { apiKeys, environments } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import type { AdminCtx } from "../../runtime.ts";
import { insertAct, newAct } from "../audit/audit-statement.ts";
import { requireApp } from "./app.ts";
import { presentKey } from "./key.ts";
import { noSuchKey, selectKey } from "./read-key.ts";
import type { KeyOutput } from "./responses.ts";

type KeyOfApp = { appId: string; keyId: string };
const isInForce = (value: ValueOf<KeyOfApp>) => {
  const ofApp = drizzle
    .select(fields(environments, "id"))
    .from(environments)
    .where(eq(environments.appId, value("appId")));
  return and(inArray(apiKeys.environmentId, ofApp), eq(apiKeys.id, value("keyId")), isNull(apiKeys.revokedAtMs));
};
const audit = insertAct<KeyOfApp>((value) => hasRow(apiKeys, isInForce(value)));
const revoke = query((value: ValueOf<KeyOfApp & { nowMs: number }>) =>
  drizzle
    .update(apiKeys)
    .set({ revokedAtMs: value("nowMs", apiKeys.revokedAtMs) })
    .where(isInForce(value)),
);

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
