import { all, statement } from "../db/sql.ts";
import type { RootCtx } from "../runtime.ts";
import type { ListKeysOutput } from "./answers.ts";
import { requireApp } from "./app.ts";
import { type KeyRow, keyColumns, presentKey } from "./key.ts";

const selectPage = statement<{ environmentId: number; after: string; limit: number }, KeyRow>`
  SELECT ${keyColumns} FROM environments AS e JOIN api_keys AS k ON k.environment_id = e.id
  WHERE e.id = :environmentId AND k.id > :after ORDER BY k.id LIMIT :limit`;
const selectAll = statement<{ appId: string }, KeyRow>`
  SELECT ${keyColumns} FROM environments AS e JOIN api_keys AS k ON k.environment_id = e.id WHERE e.app_id = :appId`;

const byTime = (a: KeyRow, b: KeyRow): number => a.createdAtMs - b.createdAtMs || (a.keyId < b.keyId ? -1 : 1);

/**
 * A page of an environment's keys, revoked ones too, after the key `after`; `next` continues it, null when there are no
 * more. Pages go by id, which an index has; each is oldest first.
 */
export async function keysPage(root: RootCtx, environmentId: number, limit: number, after = "") {
  const rows = await all(root.db, selectPage({ environmentId, after, limit: limit + 1 }));
  const shown = rows.slice(0, limit);
  const next = rows.length > limit ? (shown.at(-1)?.keyId ?? null) : null;
  return { keys: shown.toSorted(byTime).map(presentKey), next };
}

/** Every key of an application, revoked ones too, oldest first; never a key itself. Throws `not_found`. */
export async function listKeys(root: RootCtx, appId: string): Promise<ListKeysOutput> {
  await requireApp(root, appId);
  const rows = await all(root.db, selectAll({ appId }));
  return { keys: rows.toSorted(byTime).map(presentKey) };
}
