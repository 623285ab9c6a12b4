import type { Steps } from "../db/schema.ts";
import { fragment, type Statement, select, statement } from "../db/sql.ts";
import type { Ctx } from "../runtime.ts";
import { aboutAccount, type User } from "./account.ts";
import { asSpendable, type PayingRow, payingColumns, type SpendableBalance } from "./balance.ts";
import { spendingOrder } from "./burn-down.ts";
import { type Hold, isDue } from "./hold.ts";
import { canPay } from "./select-balances.ts";

/** SQL: whether a reservation holds a part of the balance. `reservations` is a condition for the reservations. */
const isReservedBy = (account: string, reservations: string): string => fragment`account_id = ${account} AND id IN (
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

/** The balances that can pay now, and those to which due holds are returned. Some rows come twice. */
export function selectPayingBalances(ctx: Ctx, user: User, atMs: number): Statement<PayingRow> {
  return selectPaying(ctx, user, { nowMs: atMs });
}

/** The same for the owner of a reservation, and the balances of its holds. */
export function selectBalancesForCommit(ctx: Ctx, reservationId: string, atMs: number): Statement<PayingRow> {
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
