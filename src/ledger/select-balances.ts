import { creditBalances } from "../db/schema.ts";
import { allColumns, fragment, select, statement } from "../db/sql.ts";
import { aboutAccount, nowMsSql } from "./account.ts";
import { type BalanceRow, type PresentedRow, presentedColumns } from "./balance.ts";

/** Whether a balance can pay now. Names the partial index's condition, so that one range is read however many are dead. */
export const canPay = (account: string): string =>
  fragment`account_id = ${account} AND has_remaining = 1 AND expires_at_ms > ${nowMsSql}`;

/** The user's balances that can pay now. */
export const selectActive = aboutAccount<{ nowMs: number }, PresentedRow>(
  (account) => statement`SELECT ${select(presentedColumns)} FROM credit_balances WHERE ${canPay(account)}`,
);

/** All balances that the user ever had. */
export const selectAllBalances = aboutAccount<Record<never, never>, PresentedRow>(
  (account) => statement`SELECT ${select(presentedColumns)} FROM credit_balances WHERE account_id = ${account}`,
);

const allBalanceColumns = select(allColumns(creditBalances));

/** Up to `limit` of the balances that can pay now, whole. */
export const selectActiveUpTo = aboutAccount<{ nowMs: number; limit: number }, BalanceRow>(
  (account) => statement`SELECT ${allBalanceColumns} FROM credit_balances WHERE ${canPay(account)} LIMIT :limit`,
);

/** Up to `limit` of all balances that the user ever had, whole. */
export const selectBalancesUpTo = aboutAccount<{ limit: number }, BalanceRow>(
  (account) => statement`SELECT ${allBalanceColumns} FROM credit_balances WHERE account_id = ${account} LIMIT :limit`,
);
