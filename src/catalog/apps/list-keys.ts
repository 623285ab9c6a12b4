import { and, eq, sql } from "drizzle-orm";
import { asInteger, drizzle, query, read, type ValueOf } from "../../db/query.ts";
import { apiKeys, environments } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import type { Mode, SystemCtx } from "../../runtime.ts";
import { requireApp } from "./app.ts";
import { keyFields, presentKey } from "./key.ts";
import type { ListKeysOutput } from "./responses.ts";
import type { ListKeysInput } from "./schemas.ts";

type Page = { appId: string; mode: Mode | null; afterMs: number; afterId: string; limit: number };

/** Up to `limit` keys of one mode, by an index: no more are read, however many there are. */
const ofMode = (value: ValueOf<Page>, mode: Mode) => {
  const position = sql`(${apiKeys.createdAtMs}, ${apiKeys.id}) > (${asInteger(value("afterMs"))}, ${value("afterId")})`;
  const page = drizzle
    .select(keyFields())
    .from(environments)
    .crossJoin(apiKeys)
    .where(
      and(
        eq(environments.appId, value("appId")),
        eq(environments.mode, mode),
        sql`coalesce(${value("mode")}, ${mode}) = ${mode}`,
        eq(apiKeys.environmentId, environments.id),
        position,
      ),
    )
    .orderBy(apiKeys.createdAtMs, apiKeys.id)
    .limit(value("limit"));
  return sql`SELECT * FROM ${page}`;
};
const selectKeys = query((value: ValueOf<Page>) =>
  read(
    keyFields(),
    () =>
      sql`${ofMode(value, "live")} UNION ALL ${ofMode(value, "test")} ORDER BY "createdAtMs", "keyId" LIMIT ${value("limit")}`,
  ),
);

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
