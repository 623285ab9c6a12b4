import type { Steps } from "../../db/schema.ts";
import { fragment, nowMsSql, type Statement, select, statement } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { aboutAccount, type User } from "./account.ts";
import { asSpendable, type PayingRow, payingColumns, type SpendableBalance } from "./balance.ts";
import { spendingOrder } from "./burn-down.ts";
import { type DueHold, type DueRow, dueColumns, type Hold, isDue } from "./hold.ts";
import { OwedPlan } from "./owed.ts";
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

/** SQL: balances that can pay now, or could at the end of a due reservation that is charged (U15). */
const canPayOrBeCharged = (account: string): string => fragment`account_id = ${account} AND has_remaining = 1
  AND expires_at_ms > coalesce(
    (SELECT min(expires_at_ms) FROM reservations WHERE ${isDue(account)} AND on_expiry = 'charge'), ${nowMsSql}
  )`;

/** The balances that can pay now. */
export const selectPayingNow = aboutAccount<{ nowMs: number }, PayingRow>(
  (account) => statement`${paying} WHERE ${canPay(account)}`,
);

/** All balances that matter when the user's due holds are settled; some come twice. */
export const selectBalancesOfDue = aboutAccount<{ nowMs: number }, PayingRow>(
  (account) => statement`
    ${paying} WHERE ${canPayOrBeCharged(account)}
    UNION ALL ${paying} WHERE ${isReservedBy(account, isDue(account))}`,
);

export type DueLegRow = Omit<DueRow, "id"> & PayingRow & { readonly holdId: string };

/** The legs of the user's due holds, each with the balance that it returns to, live or not. */
export const selectDueLegs = aboutAccount<{ nowMs: number }, DueLegRow>(
  (account) => statement`
    SELECT ${select(payingColumns, "b")}, due.id AS holdId, due.legs, due.event, due.model, due.quantities,
      due.occurredAtMs, due.isToCharge, due.owed
    FROM (SELECT ${dueColumns}, account_id FROM reservations WHERE ${isDue(account)}) AS due
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

/** Each balance once, as it is after `holds` are returned, and have paid what they say is owed. A revoked balance stays at 0 (U9). */
export function withReturns<Row extends Pick<PayingRow, "id" | "remainingSteps" | "revokedAtMs">>(
  rows: readonly Row[],
  holds: readonly (Hold & Partial<Pick<DueHold, "owed">>)[],
): Row[] {
  const returning = new Map<string, number>();
  const plan = new OwedPlan();
  for (const { legs, owed = [] } of holds) {
    for (const { balanceId, amountSteps } of legs) {
      const back = amountSteps - plan.pay(owed, balanceId, amountSteps);
      returning.set(balanceId, (returning.get(balanceId) ?? 0) + back);
    }
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

/** The balances of a hold first, then the others, each group in its order (U6). */
export function reservedFirst(balances: readonly SpendableBalance[], own: Hold): SpendableBalance[] {
  const reserved = new Set(own.legs.map((leg) => leg.balanceId));
  return [...balances.filter(({ id }) => reserved.has(id)), ...balances.filter(({ id }) => !reserved.has(id))];
}
