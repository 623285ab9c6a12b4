/**
 * SQL: whether an id has credits, usage, or a consent that was given with a user token (P2). It takes three index seeks.
 * `environmentId` and `distinctId` are SQL too.
 */
export function isUserSql(environmentId: string, distinctId: string): string {
  return `(${[hasCreditsSql, hasUsageSql, hasOwnConsentSql].map((has) => has(environmentId, distinctId)).join(" OR ")})`;
}

const ofAccount = (table: string, environmentId: string, distinctId: string): string =>
  `SELECT 1 FROM accounts AS a CROSS JOIN ${table} AS b ON b.account_id = a.id
   WHERE a.environment_id = ${environmentId} AND a.user_id = ${distinctId}`;

export const hasCreditsSql = (environmentId: string, distinctId: string): string =>
  `EXISTS (${ofAccount("credit_balances", environmentId, distinctId)})`;

export const hasUsageSql = (environmentId: string, distinctId: string): string =>
  `EXISTS (${ofAccount("usage_events", environmentId, distinctId)})`;

export const hasOwnConsentSql = (environmentId: string, distinctId: string): string =>
  `EXISTS (
    SELECT 1 FROM consent_log AS o INDEXED BY consent_log_by_user
    WHERE o.environment_id = ${environmentId} AND o.distinct_id = ${distinctId} AND o.is_by_user = 1)`;
