import { fragment } from "../db/sql.ts";
import { hasAccountSql, hasOwnConsentSql, isUserSql } from "./is-user.ts";

/** The named values of `personWalk`. */
export type PersonKey = { appId: string; mode: string; distinctId: string };

/**
 * SQL: whether the claim on the id at `alias` counts now (P2): it is verified, or the id is a device's and no user. Of the claimer of
 * one that is not verified, what made it count stays.
 */
export function claimCountsSql(alias: string): string {
  const [environmentId, distinctId] = [`${alias}.environment_id`, `${alias}.distinct_id`];
  return fragment`(${alias}.claim_is_verified = 1 OR (
    ${alias}.is_device_form = 1 AND NOT ${isUserSql(environmentId, distinctId, `${alias}.is_user`)}))`;
}

/** SQL: why a claim that is not verified does not count, as a JSON list. Empty if it counts. */
export function claimFlawsSql(alias: string): string {
  const [environmentId, distinctId] = [`${alias}.environment_id`, `${alias}.distinct_id`];
  const flaws: readonly (readonly [string, string])[] = [
    ["identified", `${alias}.is_identified = 1`],
    ["known", `${alias}.is_user = 1 AND ${alias}.is_identified = 0`],
    ["account", hasAccountSql(environmentId, distinctId)],
    ["consent", hasOwnConsentSql(environmentId, distinctId)],
  ];
  const list = flaws.map(([name, condition]) => `iif(${condition}, '"${name}",', '')`).join(" || ");
  return `json('[' || rtrim(${list}, ',') || ']')`;
}

interface Walk {
  readonly idsMax: number;
  /** Stops at ids that claim more than so many. */
  readonly fanMax?: number;
  /** Columns of `distinct_ids` that the table has too; null for an id without a record. */
  readonly columns?: readonly string[];
}

/**
 * SQL: a recursive table `person` (environment_id, distinct_id, is_verified, …) of a person's ids, of at most `idsMax` of them: the id that
 * was asked for, if its application is there, then what it claims by claims that count, nearest first (P3). `is_verified`: whether
 * verified claims alone reach it. What another claim reaches claims nothing. Each id is claimed by one and verified claims make no
 * circle, so each is met once, in two or three rows read.
 */
export function personWalk({ idsMax, fanMax, columns = [] }: Walk): string {
  const of = (alias: string): string => columns.map((column) => `, ${alias}.${column}`).join("");
  const isFew = fragment`(
    SELECT count(*) FROM (
      SELECT 1 FROM distinct_ids AS f INDEXED BY distinct_ids_claimed_by
      WHERE f.environment_id = person.environment_id AND f.claimed_by = person.distinct_id
        AND f.claimed_by IS NOT NULL LIMIT ${`${fanMax}`} + 1
    )) <= ${`${fanMax}`}`;
  const own =
    columns.length === 0
      ? ""
      : "LEFT JOIN distinct_ids AS own ON own.environment_id = e.id AND own.distinct_id = :distinctId";
  return fragment`WITH RECURSIVE person (environment_id, distinct_id, is_verified${columns.map((column) => `, ${column}`).join("")}) AS (
    SELECT e.id, :distinctId, 1${of("own")} FROM environments AS e ${own} WHERE e.app_id = :appId AND e.mode = :mode
    UNION ALL
    SELECT d.environment_id, d.distinct_id, d.claim_is_verified${of("d")}
    FROM person CROSS JOIN distinct_ids AS d INDEXED BY distinct_ids_claimed_by
    WHERE person.is_verified = 1 AND d.environment_id = person.environment_id AND d.claimed_by = person.distinct_id
      AND d.claimed_by IS NOT NULL AND ${claimCountsSql("d")}${fanMax === undefined ? "" : ` AND ${isFew}`}
    LIMIT ${`${idsMax}`})`;
}
