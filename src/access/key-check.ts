import { type Statement, statement } from "../db/sql.ts";
import { sha256 } from "../lib/hash.ts";
import type { Key } from "./key.ts";

/** What is stored of a key's environment. */
export interface KeyRow {
  /** The end-user token setting as JSON; null: there is none. */
  readonly endUserAuth: string | null;
}

/** The values by which a key is found. */
export type KeyValues = { hash: string; environmentId: number; kind: Key["kind"] };

/** The key's row, if it is in force. */
export const selectKey = statement<KeyValues, KeyRow>`
  SELECT e.end_user_auth AS endUserAuth
  FROM api_keys AS k CROSS JOIN environments AS e ON e.id = k.environment_id
  WHERE k.hash = :hash AND k.environment_id = :environmentId AND k.kind = :kind AND k.revoked_at_ms IS NULL`;

/** Aborts the batch with `guard_key` where the key is not in force. */
export const guardKey = statement<KeyValues>`
  INSERT INTO guards (name, holds) SELECT 'key', EXISTS (
    SELECT 1 FROM api_keys
    WHERE hash = :hash AND environment_id = :environmentId AND kind = :kind AND revoked_at_ms IS NULL
  )`;

/** Aborts the batch with `guard_origin` where the environment's setting lists origins, and not this one (L4). */
export const guardOrigin = statement<{ environmentId: number; origin: string }>`
  INSERT INTO guards (name, holds) SELECT 'origin', NOT EXISTS (
    SELECT 1 FROM environments WHERE id = :environmentId AND end_user_auth ->> '$.origins' IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM json_each(end_user_auth, '$.origins') WHERE value = :origin)
  )`;

/** The texts that `withKey` has written, by the query's. There are as many as queries in the sources. */
const textsWithKey = new Map<string, string>();

function writeWithKey({ text, params }: Statement, columnCount: number, keyText: string): string {
  const shifted = keyText.replace(/\?(\d+)/g, (_, number: string) => `?${Number(number) + params.length}`);
  const pads = Array.from({ length: columnCount - 1 }, (_, index) => `NULL AS pad${index}, `).join("");
  return `SELECT k.*, ${pads}1 AS isKey FROM (${shifted}) AS k UNION ALL SELECT q.*, NULL FROM (${text}) AS q`;
}

/** The row of `selectKey`, then those of a query. One more column has 1 in the key's row, and null in the others. */
export function withKey(query: Statement, columnCount: number, values: KeyValues): Statement {
  const key = selectKey(values);
  let text = textsWithKey.get(query.text);
  if (text === undefined) {
    text = writeWithKey(query, columnCount, key.text);
    textsWithKey.set(query.text, text);
  }
  return { text, params: [...query.params, ...key.params] };
}

/** The hashes of the keys that were sent last. Whether a key is in force is not remembered. */
const hashes = new Map<string, string>();
const hashesMax = 100;

export async function hashOf(text: string): Promise<string> {
  const known = hashes.get(text);
  if (known !== undefined) return known;
  const hash = await sha256(text);
  if (hashes.size >= hashesMax) hashes.clear();
  hashes.set(text, hash);
  return hash;
}
