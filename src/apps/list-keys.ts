import { all, fragment, statement } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import type { Mode, SystemCtx } from "../runtime.ts";
import { requireApp } from "./app.ts";
import { type KeyRow, keyColumns, presentKey } from "./key.ts";
import type { ListKeysOutput } from "./responses.ts";
import type { ListKeysInput } from "./schemas.ts";

/** Up to `limit` keys of one mode, by an index: no more are read, however many there are. */
const ofMode = (mode: Mode) => fragment`SELECT * FROM (
  SELECT ${keyColumns} FROM environments AS e CROSS JOIN api_keys AS k ON k.environment_id = e.id
  WHERE e.app_id = :appId AND e.mode = '${mode}' AND coalesce(:mode, '${mode}') = '${mode}'
    AND (k.created_at_ms, k.id) > (CAST(:afterMs AS INTEGER), :afterId)
  ORDER BY k.created_at_ms, k.id LIMIT :limit
)`;
const selectKeys = statement<
  { appId: string; mode: Mode | null; afterMs: number; afterId: string; limit: number },
  KeyRow
>`${ofMode("live")} UNION ALL ${ofMode("test")} ORDER BY "createdAtMs", "keyId" LIMIT :limit`;

interface Position {
  readonly afterMs: number;
  readonly afterId: string;
}

const START: Position = { afterMs: -1, afterId: "" };

async function openPosition(cursor: string | undefined, scope: readonly string[]): Promise<Position> {
  if (cursor === undefined) return START;
  const text = decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  // Sealed, so it is what `listKeys` wrote.
  const [afterMs, afterId] = JSON.parse(text) as [number, string];
  return { afterMs, afterId };
}

/**
 * A page of an application's keys, of one mode or of both, revoked ones too, oldest first; never a key itself. Throws
 * `not_found`, and `invalid_request` for a cursor of another list.
 */
export async function listKeys(
  root: SystemCtx,
  appId: string,
  { limit, cursor }: ListKeysInput,
  mode: Mode | null = null,
): Promise<ListKeysOutput> {
  await requireApp(root, appId);
  const scope = ["api_keys", appId, mode ?? ""];
  const position = await openPosition(cursor, scope);
  const rows = await all(root.db, selectKeys({ appId, mode, ...position, limit: limit + 1 }));
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const isMore = last !== undefined && rows.length > limit;
  return {
    keys: shown.map(presentKey),
    nextCursor: isMore ? encodeTextCursor(JSON.stringify([last.createdAtMs, last.keyId]), scope) : null,
  };
}
