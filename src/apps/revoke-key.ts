import { and, eq, inArray, isNull, sql } from "drizzle-orm";
import { forgetKeys } from "../access/keys.ts";
import { apiKeys, environments } from "../db/schema.ts";
import { PurserError } from "../errors.ts";
import type { RootCtx } from "../runtime.ts";
import type { KeyOutput } from "./answers.ts";
import { requireApp } from "./app.ts";
import { presentKey, selectKeys } from "./list-keys.ts";

/**
 * Revokes a key: here at once, everywhere within 30 seconds, when the last isolate asks again. Again: as it was. Throws
 * `not_found`.
 */
export async function revokeKey(root: RootCtx, appId: string, keyId: string): Promise<KeyOutput> {
  const ofApp = root.db.select({ id: environments.id }).from(environments).where(eq(environments.appId, appId));
  const [, [row]] = await root.db.batch([
    root.db
      .update(apiKeys)
      .set({ revokedAtMs: sql`CAST(${root.now()} AS INTEGER)` })
      .where(and(inArray(apiKeys.environmentId, ofApp), eq(apiKeys.id, keyId), isNull(apiKeys.revokedAtMs))),
    selectKeys(root).where(and(eq(environments.appId, appId), eq(apiKeys.id, keyId))),
  ]);
  forgetKeys();
  if (row !== undefined) return presentKey(row);
  await requireApp(root, appId);
  throw new PurserError("not_found", "The application has no such key.", { param: "keyId" });
}
