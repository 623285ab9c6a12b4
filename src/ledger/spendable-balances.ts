import type { Steps } from "../db/schema.ts";
import { fragment, type Statement, select, statement } from "../db/sql.ts";
import type { TenantCtx } from "../runtime.ts";
import { aboutAccount, type User } from "./account.ts";
import { asSpendable, type PayingRow, payingColumns, type SpendableBalance } from "./balance.ts";
import { spendingOrder } from "./burn-down.ts";
import { type Hold, isDue } from "./hold.ts";
import { canPay } from "./select-balances.ts";

/** Whether a balance is named by the legs of some reservations of its account. The plus has SQLite find it by its id. */
const isReservedBy = (account: string, reservations: string): string => fragment`+account_id = ${account} AND id IN (
  SELECT leg.value ->> 'balanceId' FROM reservations, json_each(legs) AS leg WHERE ${reservations}
)`;

const paying = fragment`SELECT ${select(payingColumns)} FROM credit_balances`;

const selectPaying = aboutAccount<{ nowMs: number }, PayingRow>(
  (account) => statement`
    ${paying} WHERE ${canPay(account)}
    UNION ALL ${paying} WHERE ${isReservedBy(account, isDue(account))}`,
);

const selectPayingCommit = aboutAccount<{ nowMs: number; reservationId: string }, PayingRow>(
  (account) => statement`
    ${paying} WHERE ${canPay(account)}
    UNION ALL ${paying} WHERE ${isReservedBy(account, isDue(account))}
    UNION ALL ${paying} WHERE ${isReservedBy(account, "environment_id = :environmentId AND reservations.id = :reservationId")}`,
);

/** The balances that can pay now. */
export const selectPayingNow = aboutAccount<{ nowMs: number }, PayingRow>(
  (account) => statement`${paying} WHERE ${canPay(account)}`,
);

/** The legs of the user's due holds, each with the balance that it returns to, live or not. */
export const selectDueLegs = aboutAccount<{ nowMs: number }, PayingRow & { holdId: string; legs: string }>(
  (account) => statement`
    SELECT ${select(payingColumns, "b")}, due.id AS holdId, due.legs AS legs
    FROM (SELECT id, account_id, legs FROM reservations WHERE ${isDue(account)}) AS due
    CROSS JOIN json_each(due.legs) AS leg
    CROSS JOIN credit_balances AS b ON b.id = leg.value ->> 'balanceId' AND +b.account_id = due.account_id`,
);

/** The balances that can pay now, and those that due holds will return to, live or not; some come twice. */
export function selectPayingBalances(ctx: TenantCtx, user: User, atMs: number): Statement<PayingRow> {
  return selectPaying(ctx, user, { nowMs: atMs });
}

/** The same for the owner of a reservation, and the balances of its holds. */
export function selectBalancesForCommit(ctx: TenantCtx, reservationId: string, atMs: number): Statement<PayingRow> {
  return selectPayingCommit(ctx, { reservationId }, { nowMs: atMs, reservationId });
}

/** Each balance once, as it is after `holds` are returned. A revoked balance stays at 0 (U9). */
export function withReturns<Row extends Pick<PayingRow, "id" | "remainingSteps" | "revokedAtMs">>(
  rows: readonly Row[],
  holds: readonly Hold[],
): Row[] {
  const returning = new Map<string, number>();
  for (const leg of holds.flatMap((hold) => hold.legs)) {
    returning.set(leg.balanceId, (returning.get(leg.balanceId) ?? 0) + leg.amountSteps);
  }
  const unique = new Map(rows.map((row) => [row.id, row]));
  return [...unique.values()].map((row) => {
    const returned = returning.get(row.id);
    if (returned === undefined || row.revokedAtMs !== null) return row;
    return { ...row, remainingSteps: (row.remainingSteps + returned) as Steps };
  });
}

/** The balances that can pay at this time, in spending order (C13). */
export function spendableBalances(rows: readonly PayingRow[], atMs: number): SpendableBalance[] {
  return rows
    .filter((row) => row.revokedAtMs === null && row.expiresAtMs > atMs && row.remainingSteps > 0)
    .map(asSpendable)
    .sort(spendingOrder);
}
