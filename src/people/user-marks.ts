import { type Placeholder, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { accounts, consentLog, members } from "../db/schema.ts";

type SqlPart = SQL | SQLiteColumn | Placeholder;

/**
 * SQL: whether an id is a user (P2): its record says so (`isMarked`), or it has an account or an own consent. With the column
 * `isVerifiedUser`, whether marks that no publishable or relay key can set say so. This costs two more index look-ups.
 */
export const isUserBy = (environmentId: SqlPart, distinctId: SqlPart, isMarked: SqlPart): SQL<boolean> =>
  sql<boolean>`(coalesce(${isMarked}, 0) = 1 OR ${hasAccount(environmentId, distinctId)}
    OR ${hasOwnConsent(environmentId, distinctId)})`;

/** SQL: whether an id has an account, or is a member of one: it has credits, usage or rejections, or is known to Stripe. */
export const hasAccount = (environmentId: SqlPart, distinctId: SqlPart): SQL =>
  sql`(EXISTS (
    SELECT 1 FROM ${accounts} WHERE ${accounts.environmentId} = ${environmentId} AND ${accounts.userId} = ${distinctId}
  ) OR EXISTS (
    SELECT 1 FROM ${members} WHERE ${members.environmentId} = ${environmentId} AND ${members.memberId} = ${distinctId}
  ))`;

/** SQL: whether an id has a consent that does not belong to an anonymous device. */
export const hasOwnConsent = (environmentId: SqlPart, distinctId: SqlPart): SQL =>
  sql`EXISTS (
    SELECT 1 FROM ${consentLog} INDEXED BY consent_log_of_user
    WHERE ${consentLog.environmentId} = ${environmentId} AND ${consentLog.distinctId} = ${distinctId}
      AND ${consentLog.isDevice} = 0
  )`;
