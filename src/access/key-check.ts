import { clockSql } from "../db/clock.ts";
import { namedRows, query, type Statement, statement } from "../db/sql.ts";
import { sha256 } from "../lib/hash.ts";
import { remember } from "../lib/remember.ts";
import type { Key } from "./key.ts";

/** What is stored of a key's environment. */
export interface KeyRow {
  /** The end-user token setting as JSON; null: there is none. */
  readonly endUserAuth: string | null;
  /** The environment's test clock as text (db/clock.ts); null: there is none. */
  readonly clock: string | null;
}

/** The values by which a key is found. */
export type KeyValues = { hash: string; environmentId: number; kind: Key["kind"] };

/** The key's row, if it is in force. */
export const selectKey = query<KeyRow>({ endUserAuth: "e.end_user_auth", clock: clockSql("e.features") })`
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
export type Query = Statement & Required<Pick<Statement, "columns" | "packed">>;

export function areQueries(statements: readonly Statement[]): statements is readonly Query[] {
  return statements.every(({ packed }) => packed !== undefined);
}

/** What SQLite takes in one compound SELECT, as D1 sets it, is five. One of them is the key's row. */
export const queriesMax = 4;

/** What `withKey` has written, by the texts of its queries, one after another: as many as the sources have trips of queries. */
interface TextsWithKey {
  text?: string;
  readonly more: Map<string, TextsWithKey>;
}
const textsWithKey: TextsWithKey = { more: new Map() };

function textWithKey(queries: readonly Query[]): string {
  let texts = textsWithKey;
  for (const { text } of queries) {
    const more = texts.more.get(text) ?? { more: new Map() };
    texts.more.set(text, more);
    texts = more;
  }
  texts.text ??= writeWithKey(queries);
  return texts.text;
}

function writeWithKey(queries: readonly Query[]): string {
  let bound = 0;
  const parts = [selectKey({ hash: "", environmentId: 0, kind: "secret" }), ...queries].map((one, index) => {
    const offset = bound;
    bound += one.params.length;
    const shifted = one.packed?.().replace(/\?(\d+)/g, (_, number: string) => `?${Number(number) + offset}`);
    return `SELECT row, ${index} AS part FROM (${shifted})`;
  });
  return parts.join(" UNION ALL ");
}

/**
 * Some queries and the key's check as one statement, which costs D1 less than a batch. A row is its values as JSON, which
 * costs less than each by itself, and a number: 0 for the key's row, 1 for those of the first query, and so on.
 */
export function withKey(queries: readonly Query[], values: KeyValues): Statement {
  const params = [...selectKey(values).params, ...queries.flatMap((one) => one.params)];
  return { text: textWithKey(queries), params };
}

/** The key's setting, if the key is in force, and the rows of each query, from the rows of `withKey`. */
export function readWithKey(queries: readonly Query[], rows: readonly (readonly unknown[])[]) {
  const parts: unknown[][] = [[], ...queries.map(() => [])];
  for (const [values, part] of rows) if (values !== null) parts[Number(part)]?.push(values);
  // `withKey` wrote this JSON.
  const [[key] = [], ...found] = parts.map((part) => JSON.parse(`[${part.join(",")}]`) as unknown[][]);
  return {
    // The columns of `selectKey`.
    row: key === undefined ? undefined : { endUserAuth: key[0] as string | null, clock: key[1] as string | null },
    rows: queries.map(({ columns }, index) => namedRows(columns, found[index] ?? [])),
  };
}

/** The hash of a key. Whether the key is in force is not remembered. */
export const hashOf = remember(100, sha256);
