import { and, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { names, type ValueOf } from "../db/query.ts";
import { distinctIds, environments } from "../db/schema.ts";
import { DIGITS } from "../lib/encoding.ts";
import { hasAccount, hasOwnConsent, isUserBy } from "./user-marks.ts";

/** The columns of an id's record that the rules for claims need, from the table or an alias. */
type IdRecord = Readonly<
  Record<"environmentId" | "distinctId" | "isUser" | "isDeviceForm" | "claimIsVerified", SQLiteColumn>
>;

/**
 * SQL: whether the claim on an id counts now (P2): the claim is verified, or the id is a device id and not a user. The claimer is
 * not checked, because its part of the rule cannot change later.
 */
export const claimCounts = (record: IdRecord): SQL =>
  sql`(${record.claimIsVerified} = 1 OR (${record.isDeviceForm} = 1 AND NOT ${isUser(record)}))`;

const isUser = ({ environmentId, distinctId, isUser }: IdRecord): SQL => isUserBy(environmentId, distinctId, isUser);

/** Why an unverified claim does not count. */
export type ClaimRejection = "identified" | "known" | "account" | "consent";

/** SQL: the errors of the claim on an id, as a JSON list. Empty if the claim counts. */
export function claimRejections(record: IdRecord & { readonly isIdentified: SQLiteColumn }): SQL<string> {
  const { environmentId, distinctId, isUser, isIdentified } = record;
  const flaws: Readonly<Record<ClaimRejection, SQL>> = {
    identified: sql`${isIdentified} = 1`,
    known: sql`${isUser} = 1 AND ${isIdentified} = 0`,
    account: hasAccount(environmentId, distinctId),
    consent: hasOwnConsent(environmentId, distinctId),
  };
  const list = Object.entries(flaws).map(([name, condition]) => sql`iif(${condition}, ${`"${name}",`}, '')`);
  return sql<string>`json('[' || rtrim(${sql.join(list, sql` || `)}, ',') || ']')`;
}

/** The table that `withPerson` defines, with the requested columns of each id. */
export const personTable = alias(distinctIds, "person");
/** Whether only verified claims lead to the id of `person`. */
export const isVerified = sql`person.verified`;

/** The named values of `withPerson`. */
export type PersonKey = { appId: string; mode: string; distinctId: string };

interface WalkOptions {
  readonly idsMax: number;
  /**
   * The walk does not follow the claims of an id that claims more than this many ids by verified claims, and reads ids that verified
   * claims reach before others. So nobody crowds them out of the first ids.
   */
  readonly verifiedClaimsMax?: number;
  /** The table is empty, and costs nothing, unless this holds for the environment. */
  readonly onlyIf?: SQL;
  /** Further columns of `person`. They are null for an id without a record. */
  readonly columns?: readonly (keyof typeof distinctIds.$inferSelect)[];
}

/**
 * WITH: a recursive table `person` of at most `idsMax` ids. First the requested id, if its application exists, then the ids
 * that it claims by claims that count, nearest first (P3). The walk ends at an id that it reaches by an unverified claim. An
 * id has one claimer, and verified claims form no cycle, so each id occurs once.
 */
export function withPerson(
  value: ValueOf<PersonKey>,
  { idsMax, verifiedClaimsMax, onlyIf, columns = [] }: WalkOptions,
): SQL {
  const requested = alias(distinctIds, "requested");
  const columnsOf = (from: typeof requested | typeof distinctIds) =>
    sql.join(columns.map((name) => sql`, ${from[name]}`));
  const { environmentId, distinctId, claimedBy, claimIsVerified } = distinctIds;
  const isRequested = and(eq(requested.environmentId, environments.id), eq(requested.distinctId, value("distinctId")));
  const isClaimed = and(
    sql`${isVerified} = 1`,
    eq(environmentId, personTable.environmentId),
    eq(claimedBy, personTable.distinctId),
    sql`${claimedBy} IS NOT NULL`,
    claimCounts(distinctIds),
    verifiedClaimsMax === undefined ? undefined : verifiedClaimsAtMost(verifiedClaimsMax),
  );
  return sql`WITH RECURSIVE ${personTable} (
      ${names(environmentId, distinctId)}, verified${sql.join(columns.map((name) => sql`, ${names(distinctIds[name])}`))}
    ) AS (
      SELECT ${environments.id}, ${value("distinctId")}, 1${columnsOf(requested)}
      FROM ${environments} ${columns.length === 0 ? sql`` : sql`LEFT JOIN ${distinctIds} AS ${requested} ON ${isRequested}`}
      WHERE ${environments.appId} = ${value("appId")} AND ${environments.mode} = ${value("mode")}
        ${onlyIf === undefined ? sql`` : sql`AND ${onlyIf}`}
      UNION ALL
      SELECT ${environmentId}, ${distinctId}, ${claimIsVerified}${columnsOf(distinctIds)}
      FROM ${personTable} CROSS JOIN ${distinctIds} INDEXED BY distinct_ids_claimed_by WHERE ${isClaimed}
      ${verifiedClaimsMax === undefined ? sql`` : sql`ORDER BY 3 DESC`} LIMIT ${idsMax}
    )`;
}

/** SQL: whether the current id of `person` claims at most this many ids by verified claims. */
function verifiedClaimsAtMost(max: number): SQL {
  const claims = alias(distinctIds, "claims");
  return sql`(
    SELECT count(*) FROM (
      SELECT 1 FROM ${distinctIds} AS ${claims} INDEXED BY distinct_ids_claimed_by
      WHERE ${claims.environmentId} = ${personTable.environmentId} AND ${claims.claimedBy} = ${personTable.distinctId}
        AND ${claims.claimedBy} IS NOT NULL AND ${claims.claimIsVerified} = 1 LIMIT ${max + 1}
    )
  ) <= ${max}`;
}

const PERSON_ID_LENGTH = 22;

/** Returns the stable id of a person (P9). It is computed from the environment and the requested id, and not stored. */
export async function makePersonId(environmentId: number, distinctId: string): Promise<string> {
  const bytes = new TextEncoder().encode(`person ${environmentId} ${distinctId}`);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  let bits = digest.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  let text = "";
  while (text.length < PERSON_ID_LENGTH) {
    text += DIGITS.charAt(Number(bits % 62n));
    bits /= 62n;
  }
  return `per_${text}`;
}
