import { creditBalances } from "../db/schema.ts";
import { allColumns, fragment, nowMsSql, query, select, statement } from "../db/sql.ts";
import { aboutAccount } from "./account.ts";
import { type BalanceRow, type PayingRow, type PresentedRow, payingColumns, presentedColumns } from "./balance.ts";

/** SQL: whether a balance can pay now. It repeats the condition of the partial index, so only balances that can pay are read. */
export const canPay = (account: string): string =>
  fragment`account_id = ${account} AND has_remaining = 1 AND expires_at_ms > ${nowMsSql}`;

/** The user's balances that can pay now. */
export const selectActive = aboutAccount<{ nowMs: number }, PresentedRow>(
  (account) => query<PresentedRow>(presentedColumns)`FROM credit_balances WHERE ${canPay(account)}`,
);

/** All balances of the user. */
export const selectAllBalances = aboutAccount<Record<never, never>, PresentedRow>(
  (account) => query<PresentedRow>(presentedColumns)`FROM credit_balances WHERE account_id = ${account}`,
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

const allBalanceColumns = select(allColumns(creditBalances));

/** All columns of up to `limit` balances that can pay now. */
export const selectActiveUpTo = aboutAccount<{ nowMs: number; limit: number }, BalanceRow>(
  (account) => statement`SELECT ${allBalanceColumns} FROM credit_balances WHERE ${canPay(account)} LIMIT :limit`,
);

/** All columns of up to `limit` balances of the user. */
export const selectBalancesUpTo = aboutAccount<{ limit: number }, BalanceRow>(
  (account) => statement`SELECT ${allBalanceColumns} FROM credit_balances WHERE account_id = ${account} LIMIT :limit`,
);
