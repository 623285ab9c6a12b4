import { namedRows, type Statement, statement } from "../db/sql.ts";
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

/** A statement whose columns are known (`query` in db/sql.ts). */
export type Query = Statement & { readonly columns: readonly string[] };

export function areQueries(statements: readonly Statement[]): statements is readonly Query[] {
  return statements.every(({ columns }) => columns !== undefined);
}

/** What SQLite takes in one compound SELECT, as D1 sets it, is five. One of them is the key's row. */
export const queriesMax = 4;

/** The texts that `withKey` has written, by those of its queries. There are as many as the sources have trips of queries. */
const textsWithKey = new Map<string, string>();

function writeWithKey(queries: readonly Query[]): string {
  const width = Math.max(1, ...queries.map(({ columns }) => columns.length));
  let bound = 0;
  const parts = [selectKey({ hash: "", environmentId: 0, kind: "secret" }), ...queries].map(
    ({ text, params, columns }, index) => {
      const offset = bound;
      bound += params.length;
      const shifted = text.replace(/\?(\d+)/g, (_, number: string) => `?${Number(number) + offset}`);
      const pads = Array.from({ length: width - (columns?.length ?? 1) }, (_, pad) => `NULL AS pad${pad}, `).join("");
      return `SELECT q.*, ${pads}${index} AS part FROM (${shifted}) AS q`;
    },
  );
  return parts.join(" UNION ALL ");
}

/**
 * Some queries and the key's check as one statement. Its rows end with a number: 0 for the key's row, 1 for those of the first
 * query, and so on. One statement costs D1 less than a batch.
 */
export function withKey(queries: readonly Query[], values: KeyValues): Statement {
  const texts = queries.map(({ text }) => text).join();
  const text = textsWithKey.get(texts) ?? writeWithKey(queries);
  textsWithKey.set(texts, text);
  return { text, params: [...selectKey(values).params, ...queries.flatMap(({ params }) => params)] };
}

/** The key's setting, if the key is in force, and the rows of each query, from the rows of `withKey`. */
export function readWithKey(queries: readonly Query[], rows: readonly (readonly unknown[])[]) {
  const parts = Map.groupBy(rows, (row) => row.at(-1));
  const [key] = parts.get(0) ?? [];
  return {
    // The first column of `selectKey`.
    row: key === undefined ? undefined : { endUserAuth: key[0] as string | null },
    rows: queries.map(({ columns }, index) => namedRows(columns, parts.get(index + 1) ?? [])),
  };
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
