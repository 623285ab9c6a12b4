import { and, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { hasRow, names, type ValueOf } from "../db/query.ts";
import { accounts, consentLog, distinctIds, environments } from "../db/schema.ts";
import type { PersonKey } from "./person-walk.ts";

/** A record of an id, under whatever alias. */
type IdRecord = Readonly<
  Record<"environmentId" | "distinctId" | "isUser" | "isDeviceForm" | "claimIsVerified", SQLiteColumn>
>;

/** Whether an id is a user (P2): its record says so, or it has an account or a consent of its own. It takes two index seeks. */
function isUser({ environmentId, distinctId, isUser }: IdRecord): SQL {
  const hasAccount = hasRow(accounts, and(eq(accounts.environmentId, environmentId), eq(accounts.userId, distinctId)));
  const hasOwnConsent = sql`EXISTS (
    SELECT 1 FROM ${consentLog} INDEXED BY consent_log_of_user
    WHERE ${consentLog.environmentId} = ${environmentId} AND ${consentLog.distinctId} = ${distinctId}
      AND ${consentLog.isDevice} = 0
  )`;
  return sql`(${isUser} = 1 OR ${hasAccount} OR ${hasOwnConsent})`;
}

/**
 * Whether the claim on an id counts now (P2): it is verified, or the id is a device's and no user. Of the claimer of one that is
 * not verified, what made it count stays.
 */
export const claimCounts = (record: IdRecord): SQL =>
  sql`(${record.claimIsVerified} = 1 OR (${record.isDeviceForm} = 1 AND NOT ${isUser(record)}))`;

/** The table that `withPerson` makes: the columns of an id that were asked for. */
export const person = alias(distinctIds, "person");
/** Whether verified claims alone reach the id of `person`. */
export const isVerified = sql`person.verified`;

interface Walk {
  readonly idsMax: number;
  /** What `person` tells of an id, beside its name; null for an id without a record. */
  readonly columns?: readonly (keyof typeof distinctIds.$inferSelect)[];
}

/**
 * WITH: a recursive table `person` of a person's ids, at most `idsMax` of them: the id that was asked for, if its application is
 * there, then what it claims by claims that count, nearest first (P3). What a claim reaches that is not verified claims nothing. Each
 * id is claimed by one and verified claims make no circle, so each is met once, in two or three rows read.
 */
export function withPerson(value: ValueOf<PersonKey>, { idsMax, columns = [] }: Walk): SQL {
  const own = alias(distinctIds, "own");
  const columnsOf = (from: typeof own | typeof distinctIds) => sql.join(columns.map((name) => sql`, ${from[name]}`));
  const { environmentId, distinctId, claimedBy, claimIsVerified } = distinctIds;
  const ofOwn = and(eq(own.environmentId, environments.id), eq(own.distinctId, value("distinctId")));
  const isClaimed = and(
    sql`${isVerified} = 1`,
    eq(environmentId, person.environmentId),
    eq(claimedBy, person.distinctId),
    sql`${claimedBy} IS NOT NULL`,
    claimCounts(distinctIds),
  );
  return sql`WITH RECURSIVE ${person} (
      ${names(environmentId, distinctId)}, verified${sql.join(columns.map((name) => sql`, ${names(distinctIds[name])}`))}
    ) AS (
      SELECT ${environments.id}, ${value("distinctId")}, 1${columnsOf(own)}
      FROM ${environments} ${columns.length === 0 ? sql`` : sql`LEFT JOIN ${distinctIds} AS ${own} ON ${ofOwn}`}
      WHERE ${environments.appId} = ${value("appId")} AND ${environments.mode} = ${value("mode")}
      UNION ALL
      SELECT ${environmentId}, ${distinctId}, ${claimIsVerified}${columnsOf(distinctIds)}
      FROM ${person} CROSS JOIN ${distinctIds} INDEXED BY distinct_ids_claimed_by WHERE ${isClaimed}
      LIMIT ${idsMax}
    )`;
}
