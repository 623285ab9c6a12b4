import { fragment, type Statement, statement } from "../db/sql.ts";
import { type ErasureSecret, hashName } from "../db/tombstones/secret.ts";
import { jsonChunks } from "../lib/json.ts";
import { claimCountsSql, type PersonKey, personWalk } from "../people/person-walk.ts";
import type { TenantCtx } from "../runtime.ts";
import { countsSql } from "./counts.ts";
import { idsListedMax } from "./schemas.ts";

/** The most ids of a person. An export has the same limit. */
const IDS_MAX = 1_000_000;
/** How many of a larger person's ids are found at a time. */
const idsOfPageMax = 5_000;

export type ErasureKey = { environmentId: number; erasureId: string };

/** The person's ids, without those that another erasure has begun with. */
const person = (idsMax: number) => fragment`${personWalk({ idsMax })},
  ids AS (
    SELECT * FROM person WHERE NOT EXISTS (
      SELECT 1 FROM erasure_ids AS other
      WHERE other.environment_id = person.environment_id AND other.distinct_id = person.distinct_id
    )
  )`;

/** An id of the person. `isVerified`: whether verified claims alone reach it. */
export interface FoundId {
  readonly distinctId: string;
  readonly isVerified: 0 | 1;
}

/** The person's ids, nearest first: at most one more than are listed. */
export const selectIds = statement<PersonKey, FoundId>`${person(idsListedMax + 1)}
  SELECT distinct_id AS distinctId, is_verified AS isVerified FROM ids`;

/** Those of some ids that are the person's. */
export const selectIdsAmong = statement<PersonKey & { ids: string }, FoundId>`${person(IDS_MAX)}
  SELECT distinct_id AS distinctId, is_verified AS isVerified FROM ids
  WHERE distinct_id IN (SELECT value FROM json_each(:ids))`;

/**
 * How many they are, and what is held about them, as JSON. With `given`, a JSON list, ids that it does not name and that verified
 * claims alone do not reach are left out.
 */
export const selectCounts = statement<PersonKey & { given: string | null }, { ids: number; counts: string }>`
  ${person(IDS_MAX)},
  erased AS (
    SELECT * FROM ids WHERE is_verified = 1 OR :given IS NULL OR distinct_id IN (SELECT value FROM json_each(:given))
  )
  SELECT (SELECT count(*) FROM erased) AS ids, (${countsSql("erased")}) AS counts`;

/** Ids that those of an erasure claim, by claims that count, and that it does not have yet. */
export const selectMoreIds = statement<ErasureKey, FoundId>`
  SELECT d.distinct_id AS distinctId, d.claim_is_verified AS isVerified
  FROM erasure_ids AS i CROSS JOIN distinct_ids AS d INDEXED BY distinct_ids_claimed_by
  WHERE i.environment_id = :environmentId AND i.erasure_id = :erasureId
    AND d.environment_id = i.environment_id AND d.claimed_by = i.distinct_id AND d.claimed_by IS NOT NULL
    AND ${claimCountsSql("d")} AND NOT EXISTS (
      SELECT 1 FROM erasure_ids WHERE environment_id = d.environment_id AND distinct_id = d.distinct_id
    )
  LIMIT ${`${idsOfPageMax}`}`;

const last = fragment`SELECT max(position) FROM erasure_ids WHERE environment_id = :environmentId AND erasure_id = :erasureId`;

/** A row is [id, hash, pseudonym, blocks]. Whoever found the ids first has them: the others abort with `erasure_ids_kept`. */
const insertIds = statement<ErasureKey & { rows: string }>`
  INSERT INTO erasure_ids (environment_id, erasure_id, position, distinct_id, hash, pseudonym, blocks, account_id)
  SELECT CAST(:environmentId AS INTEGER), :erasureId, first.position + r.key, r.value ->> 0, r.value ->> 1, r.value ->> 2,
    r.value ->> 3, (SELECT id FROM accounts WHERE environment_id = :environmentId AND user_id = r.value ->> 0 AND is_erased = 0)
  FROM (SELECT coalesce((${last}), -1) + 1 AS position) AS first CROSS JOIN json_each(:rows) AS r`;

/** Ids without a tombstone have just been found. */
const ofPage = fragment`i.environment_id = :environmentId AND i.erasure_id = :erasureId AND NOT EXISTS (
    SELECT 1 FROM tombstones AS t WHERE t.environment_id = i.environment_id AND t.hash = i.hash
  )`;

const addCounts = statement<ErasureKey>`
  UPDATE erasures SET counts = json_insert(counts, '$[#]', json((${countsSql(`(SELECT * FROM erasure_ids AS i WHERE ${ofPage})`)}))),
    id_count = (SELECT count(*) FROM erasure_ids WHERE environment_id = :environmentId AND erasure_id = :erasureId)
  WHERE environment_id = :environmentId AND id = :erasureId`;

const renameAccounts = statement<ErasureKey>`
  UPDATE accounts SET user_id = i.pseudonym, is_erased = 1
  FROM erasure_ids AS i WHERE accounts.id = i.account_id AND ${ofPage}`;

const insertTombstones = statement<ErasureKey>`
  INSERT INTO tombstones (environment_id, hash, erasure_id, blocks)
  SELECT environment_id, hash, erasure_id, blocks FROM erasure_ids AS i WHERE ${ofPage}`;

/** Ends the tombstones of an earlier erasure that only cut: the ids are erased again. */
const endCuts = statement<ErasureKey & { rows: string }>`
  DELETE FROM tombstones WHERE blocks = 0 AND environment_id = :environmentId AND hash IN (
    SELECT r.value ->> 1 FROM json_each(:rows) AS r
  )`;

/**
 * Counts as a lift does: ids that only cut may begin anew, and an isolate would go on with what it remembers of them from before.
 */
const countLift = statement<{ environmentId: number }>`
  UPDATE environments SET features = json_set(coalesce(features, '{}'), '$.lifts', coalesce(features ->> '$.lifts', 0) + 1)
  WHERE id = :environmentId`;

/** An id with which an erasure begins, and whether its tombstone blocks (E4). */
export interface BegunId {
  readonly distinctId: string;
  readonly blocks: boolean;
}

/**
 * The statements that begin with ids: what is held about them is counted, their accounts lose their names, and their tombstones
 * stand. From then on nothing is written for them. `check` follows when the ids are there.
 */
export async function beginIds(
  ctx: TenantCtx,
  secret: ErasureSecret,
  erasureId: string,
  ids: readonly BegunId[],
  check: readonly Statement[] = [],
): Promise<Statement[]> {
  const key = { environmentId: ctx.environment.id, erasureId };
  const rows: (string | number)[][] = [];
  for (const { distinctId, blocks } of ids) {
    const hash = await hashName(secret, ctx.environment, "id", distinctId);
    rows.push([distinctId, hash, ctx.newId("erased_"), Number(blocks)]);
  }
  const chunks = jsonChunks(rows);
  return [
    ...chunks.map((chunk) => endCuts({ ...key, rows: chunk })),
    ...chunks.map((chunk) => insertIds({ ...key, rows: chunk })),
    ...check,
    addCounts(key),
    renameAccounts(key),
    insertTombstones(key),
    ...(ids.every(({ blocks }) => blocks) ? [] : [countLift(key)]),
  ];
}

/**
 * Aborts the batch with `guard_people` where the person's ids are no longer those that the erasure begins with. With `leavesOut` others
 * may be there that verified claims alone do not reach.
 */
export const guardIds = statement<PersonKey & ErasureKey & { leavesOut: number }>`
  INSERT INTO guards (name, holds) ${personWalk({ idsMax: idsListedMax + 1 })},
  own AS (SELECT distinct_id FROM erasure_ids WHERE environment_id = :environmentId AND erasure_id = :erasureId)
  SELECT 'people', NOT EXISTS (
    SELECT 1 FROM person WHERE (is_verified = 1 OR :leavesOut = 0)
      AND distinct_id NOT IN (SELECT distinct_id FROM own) AND NOT EXISTS (
      SELECT 1 FROM erasure_ids AS other
      WHERE other.environment_id = person.environment_id AND other.distinct_id = person.distinct_id
    )
  ) AND NOT EXISTS (SELECT 1 FROM own WHERE distinct_id NOT IN (SELECT distinct_id FROM person))`;
