import { all, statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { SystemCtx } from "../runtime.ts";
import { type KeyRow, keyColumns, presentKey } from "./key.ts";
import type { KeyOutput } from "./responses.ts";

/** A key of an application, of either mode. */
export const selectKey = statement<{ appId: string; keyId: string }, KeyRow>`
  SELECT ${keyColumns} FROM environments AS e JOIN api_keys AS k ON k.environment_id = e.id
  WHERE e.app_id = :appId AND k.id = :keyId`;

export const noSuchKey = (): PurserError =>
  new PurserError("not_found", "The application has no such key.", { param: "keyId" });

/** A key; never the key itself. Throws `not_found`. */
export async function readKey(root: SystemCtx, appId: string, keyId: string): Promise<KeyOutput> {
  const [row] = await all(root.db, selectKey({ appId, keyId }));
  if (row === undefined) throw noSuchKey();
  return presentKey(row);
}
