import { clockSql } from "../db/clock.ts";
import { query, statement } from "../db/sql.ts";
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

/** The hash of a key. Whether the key is in force is not remembered. */
export const hashOf = remember(100, sha256);
