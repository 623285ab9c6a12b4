import { and, eq } from "drizzle-orm";
import { drizzle, query, type ValueOf } from "../../db/query.ts";
import { apiKeys, environments } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import type { SystemCtx } from "../../runtime.ts";
import { keyFields, presentKey } from "./key.ts";
import type { KeyOutput } from "./responses.ts";

/** A key of an application, of either mode. */
export const selectKey = query((value: ValueOf<{ appId: string; keyId: string }>) =>
  drizzle
    .select(keyFields())
    .from(environments)
    .innerJoin(apiKeys, eq(apiKeys.environmentId, environments.id))
    .where(and(eq(environments.appId, value("appId")), eq(apiKeys.id, value("keyId")))),
);

export const noSuchKey = (): PurserError =>
  new PurserError("not_found", "The application has no such key.", { param: "keyId" });

/** A key; never the key itself. Throws `not_found`. */
export async function readKey(root: SystemCtx, appId: string, keyId: string): Promise<KeyOutput> {
  const [row] = await all(root.db, selectKey({ appId, keyId }));
  if (row === undefined) throw noSuchKey();
  return presentKey(row);
}
