import { fragment } from "../db/sql.ts";
import { hasCreditsSql, hasOwnConsentSql, hasUsageSql, isUserSql } from "./is-user.ts";

/** The named values of `personWalk`. */
export type PersonKey = { appId: string; mode: string; distinctId: string };

/** SQL: whether the claim on the id at `alias` counts now (P2): it is verified, or the id is a device id and not a user. */
export function claimCountsSql(alias: string): string {
  return fragment`(${alias}.claim_is_verified = 1 OR (
    ${alias}.is_device_form = 1 AND ${alias}.is_identified = 0
    AND NOT ${isUserSql(`${alias}.environment_id`, `${alias}.distinct_id`)}))`;
}

/** SQL: why a claim that is not verified does not count, as a JSON list. Empty if it counts. */
export function claimFlawsSql(alias: string): string {
  const [environmentId, distinctId] = [`${alias}.environment_id`, `${alias}.distinct_id`];
  const flaws: readonly (readonly [string, string])[] = [
    ["identified", `${alias}.is_identified = 1`],
    ["credits", hasCreditsSql(environmentId, distinctId)],
    ["usage", hasUsageSql(environmentId, distinctId)],
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
 * SQL: a recursive table `person` (environment_id, distinct_id, …) of a person's ids, of at most `idsMax` of them: the id that
 * was asked for, if its application is there, then what it claims by claims that count, nearest first (P3). Each id is
 * claimed by one and no claims make a circle, so each is met once, in two or three rows read.
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
  return fragment`WITH RECURSIVE person (environment_id, distinct_id${columns.map((column) => `, ${column}`).join("")}) AS (
    SELECT e.id, :distinctId${of("own")} FROM environments AS e ${own} WHERE e.app_id = :appId AND e.mode = :mode
    UNION ALL
    SELECT d.environment_id, d.distinct_id${of("d")}
    FROM person CROSS JOIN distinct_ids AS d INDEXED BY distinct_ids_claimed_by
    WHERE d.environment_id = person.environment_id AND d.claimed_by = person.distinct_id
      AND d.claimed_by IS NOT NULL AND ${claimCountsSql("d")}${fanMax === undefined ? "" : ` AND ${isFew}`}
    LIMIT ${`${idsMax}`})`;
}
