import { fragment } from "../db/sql.ts";

/**
 * SQL: whether an id is a user (P2): its record says so, or it has an account or a consent of its own. It takes two index seeks
 * beside the record's. All three are SQL; `isMarked` is the record's `is_user`.
 */
export const isUserSql = (environmentId: string, distinctId: string, isMarked: string): string =>
  fragment`(coalesce(${isMarked}, 0) = 1 OR ${hasAccountSql(environmentId, distinctId)}
    OR ${hasOwnConsentSql(environmentId, distinctId)})`;

/** SQL: whether an id has credits or usage, was refused some, or is known to Stripe. */
export const hasAccountSql = (environmentId: string, distinctId: string): string =>
  fragment`EXISTS (SELECT 1 FROM accounts AS a WHERE a.environment_id = ${environmentId} AND a.user_id = ${distinctId})`;

/** SQL: whether an id has a consent that is not a mere device's. */
export const hasOwnConsentSql = (environmentId: string, distinctId: string): string =>
  fragment`EXISTS (
    SELECT 1 FROM consent_log AS o INDEXED BY consent_log_of_user
    WHERE o.environment_id = ${environmentId} AND o.distinct_id = ${distinctId} AND o.is_device = 0)`;
