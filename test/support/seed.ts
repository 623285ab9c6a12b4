import { BALANCE_SOURCES, ENTRY_KINDS } from "../../src/db/schema.ts";

/**
 * SQL that fills a user's account with many rows, for measurements. It is plain text, so that a test inside workerd and the
 * benchmark outside of it can both run it. The triggers check every row.
 */
export interface Account {
  readonly environmentId: number;
  readonly userId: string;
}

const MATCHES = '[{"event":"chat.*"}]';
const NEVER_MS = 9_007_199_254_740_991;
const UNTIL = (count: number) =>
  `(WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ${count}) SELECT i FROM n)`;
const idOf = ({ environmentId, userId }: Account) =>
  `(SELECT id FROM accounts WHERE environment_id = ${environmentId} AND user_id = '${userId}')`;
const lastSeq = (account: Account) =>
  `(SELECT coalesce(max(seq), 0) AS seq FROM credit_ledger WHERE account_id = ${idOf(account)})`;

/** Creates the account if it does not exist. */
function accountSql({ environmentId, userId }: Account): string {
  return `INSERT INTO accounts (environment_id, user_id) SELECT ${environmentId}, '${userId}'
    WHERE ${idOf({ environmentId, userId })} IS NULL`;
}

/** The id of a seeded balance: the i-th with a label, "live", "expired", "depleted" or "revoked". */
export const seededId = ({ environmentId, userId }: Account, label: string, i: number | "") =>
  `crb_${environmentId}_${userId}_${label}_${i}`;

/** Balances of 1,000 units each. */
function balances(account: Account, label: string, count: number, expiresAtMs: number, matches = MATCHES): string {
  return `INSERT INTO credit_balances (account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority,
      initial_minor, remaining_minor, has_remaining, source_number, external_ref, granted_at_ms, expires_at_ms, grant_seq,
      last_seq)
    SELECT ${idOf(account)}, '${seededId(account, label, "")}' || i, 'cpk_seed', 'Seed', 1, 1,
      'tokens', replace('${matches}', '#', i), 100, 1000000, 1000000, 1, ${BALANCE_SOURCES.purchase}, '${label} ' || i, 1, ${expiresAtMs},
      last.seq + 1 + i, last.seq + 1 + i
    FROM ${UNTIL(count)}, ${lastSeq(account)} AS last ORDER BY i`;
}

/** Debits `steps`, an SQL expression, from each balance of a label. */
function entries(account: Account, label: string, count: number, minor: string, kind: "usage" | "revoke"): string {
  return `INSERT INTO credit_ledger (account_id, seq, grant_seq, delta_minor, balance_after_minor, previous_seq, kind, written_by,
      event_seq, occurred_at_ms, is_revoked)
    SELECT b.account_id, last.seq + 1 + i, b.grant_seq, -(${minor}), b.remaining_minor - (${minor}), b.last_seq,
      ${ENTRY_KINDS[kind]}, 0, ${kind === "usage" ? 1 : "NULL"}, 2, '${label}' = 'revoked'
    FROM ${UNTIL(count)}, ${lastSeq(account)} AS last CROSS JOIN credit_balances AS b
    WHERE b.account_id = ${idOf(account)} AND b.id = '${seededId(account, label, "")}' || i
    ORDER BY i`;
}

/** Balances that can pay. `matches`: their rules as JSON, in which `#` is another number in each balance. */
export function liveBalancesSql(account: Account, count: number, matches = MATCHES): string[] {
  return count === 0 ? [] : [accountSql(account), balances(account, "live", count, NEVER_MS, matches)];
}

/** Balances that cannot pay. A third has expired with credits, a third is depleted, and a third is revoked. */
export function deadBalancesSql(account: Account, count: number): string[] {
  const third = Math.floor(count / 3);
  if (third === 0) return [];
  return [
    accountSql(account),
    balances(account, "expired", count - 2 * third, 3),
    balances(account, "depleted", third, NEVER_MS),
    entries(account, "depleted", third, "b.remaining_minor", "usage"),
    balances(account, "revoked", third, NEVER_MS),
    entries(account, "revoked", third, "b.remaining_minor", "revoke"),
  ];
}

/** One more ledger entry for each of the user's first `count` live balances, `rounds` times. */
export function entriesSql(account: Account, count: number, rounds: number): string[] {
  return Array.from({ length: rounds }, () => entries(account, "live", count, "1", "usage"));
}
