import { fragment, nowMsSql, query, select, statement, type Values } from "../../db/sql.ts";
import { aboutAccount } from "./account.ts";
import {
  type BalanceRow,
  balanceColumns,
  type PayingRow,
  type PresentedRow,
  payingColumns,
  presentedColumns,
} from "./balance.ts";

/** SQL: whether a balance can pay now. It repeats the condition of the partial index, so only balances that can pay are read. */
export const canPay = (account: string): string =>
  fragment`account_id = ${account} AND has_remaining = 1 AND expires_at_ms > ${nowMsSql}`;

/** The user's balances that can pay now. */
export const selectActive = aboutAccount<{ nowMs: number }, PresentedRow>(
  (account) => query<PresentedRow>(presentedColumns)`FROM credit_balances WHERE ${canPay(account)}`,
);

/** How many balances a list has. More could end the isolate (L6). */
export const LISTED_MAX = 40_000;
const limit = `LIMIT ${LISTED_MAX + 1}`;

/** All balances of the user, or one more than a list has. */
export const selectAllBalances = aboutAccount<Record<never, never>, PresentedRow>(
  (account) => query<PresentedRow>(presentedColumns)`FROM credit_balances WHERE account_id = ${account} ${limit}`,
);

const underReference = (account: string): string =>
  fragment`INDEXED BY credit_balances_external_ref WHERE account_id = ${account} AND external_ref = :externalRef`;

/** The user's balances under a reference. The index is named, because SQLite might otherwise read all balances of the user. */
export const selectUnderReference = aboutAccount<{ externalRef: string }, PresentedRow>(
  (account) => query<PresentedRow>(presentedColumns)`FROM credit_balances ${underReference(account)}`,
);

const { remainingSteps, revokedAtMs, ...neverChanged } = presentedColumns;

/**
 * Balances as they were at a moment: each goes back along its own entries to the last one up to then. That entry says whether it was
 * revoked; the balance says it of now alone, and a payment may have restored it since.
 */
const asOf = (account: string, source: string) => statement<Values, PresentedRow>`
  WITH RECURSIVE entry (grant_seq, previous_seq, after_steps, is_revoked, at_ms) AS (
    SELECT b.grant_seq, l.previous_seq, l.balance_after_steps, l.is_revoked, l.occurred_at_ms
    FROM (SELECT grant_seq, account_id, last_seq FROM credit_balances ${source}) AS b
    CROSS JOIN credit_ledger AS l ON l.account_id = b.account_id AND l.seq = b.last_seq
    UNION ALL
    SELECT entry.grant_seq, older.previous_seq, older.balance_after_steps, older.is_revoked, older.occurred_at_ms
    FROM entry CROSS JOIN credit_ledger AS older
    WHERE entry.at_ms > :asOfMs AND older.account_id = ${account} AND older.seq = entry.previous_seq
  )
  SELECT ${select(neverChanged, "b")}, entry.after_steps AS remainingSteps,
    iif(entry.is_revoked, entry.at_ms, NULL) AS revokedAtMs
  FROM entry CROSS JOIN credit_balances AS b ON b.account_id = ${account} AND b.grant_seq = entry.grant_seq
  WHERE entry.at_ms <= :asOfMs ${limit}`;

/** All balances that were issued up to a moment, as they were then. */
export const selectAsOf = aboutAccount<{ asOfMs: number }, PresentedRow>((account) =>
  asOf(account, fragment`WHERE account_id = ${account}`),
);

/** The same of a reference. */
export const selectUnderReferenceAsOf = aboutAccount<{ asOfMs: number; externalRef: string }, PresentedRow>((account) =>
  asOf(account, underReference(account)),
);

/** How many balances that cannot pay are looked at, at the most. */
const deadBalancesMax = 100;

/** Of the balances that cannot pay now, the newest. */
export const selectNewestDead = aboutAccount<{ nowMs: number }, PayingRow>(
  (account) => statement`
    SELECT ${select(payingColumns)} FROM credit_balances NOT INDEXED
    WHERE account_id = ${account} AND NOT (has_remaining = 1 AND expires_at_ms > ${nowMsSql})
    ORDER BY grant_seq DESC LIMIT ${`${deadBalancesMax}`}`,
);

/** All that is shown of up to `limit` balances that can pay now. */
export const selectActiveUpTo = aboutAccount<{ nowMs: number; limit: number }, BalanceRow>(
  (account) => statement`SELECT ${select(balanceColumns)} FROM credit_balances WHERE ${canPay(account)} LIMIT :limit`,
);

/** All that is shown of up to `limit` balances of the user. */
export const selectBalancesUpTo = aboutAccount<{ limit: number }, BalanceRow>(
  (account) =>
    statement`SELECT ${select(balanceColumns)} FROM credit_balances WHERE account_id = ${account} LIMIT :limit`,
);
