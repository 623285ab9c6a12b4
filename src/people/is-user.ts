import { type Placeholder, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { accounts, consentLog } from "../db/schema.ts";

type SqlPart = SQL | SQLiteColumn | Placeholder;

/**
 * Whether an id is a user (P2): its record says so, or it has an account or an own consent. This costs two more index look-ups.
 * `isMarked` is the record's `isUser`.
 */
export const isUserBy = (environmentId: SqlPart, distinctId: SqlPart, isMarked: SqlPart): SQL<boolean> =>
  sql<boolean>`(coalesce(${isMarked}, 0) = 1 OR ${hasAccount(environmentId, distinctId)}
    OR ${hasOwnConsent(environmentId, distinctId)})`;

/** Whether an id has credits, usage or refusals, or is known to Stripe. */
export const hasAccount = (environmentId: SqlPart, distinctId: SqlPart): SQL =>
  sql`EXISTS (
    SELECT 1 FROM ${accounts} WHERE ${accounts.environmentId} = ${environmentId} AND ${accounts.userId} = ${distinctId}
  )`;

/** Whether an id has a consent that is not an anonymous device's. */
export const hasOwnConsent = (environmentId: SqlPart, distinctId: SqlPart): SQL =>
  sql`EXISTS (
    SELECT 1 FROM ${consentLog} INDEXED BY consent_log_of_user
    WHERE ${consentLog.environmentId} = ${environmentId} AND ${consentLog.distinctId} = ${distinctId}
      AND ${consentLog.isDevice} = 0
  )`;
