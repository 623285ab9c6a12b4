import { and, eq, type SQL, sql } from "drizzle-orm";
import { asInteger, fields, read, type ValueOf } from "../../db/query.ts";
import { creditBalances, reservations, type Steps } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery, type User } from "./account.ts";
import { asSpendable, PAYING_FIELDS, type PayingRow, type SpendableBalance } from "./balance.ts";
import { spendingOrder } from "./burn-down.ts";
import { type DueHold, dueFields, type Hold, isDue } from "./hold.ts";
import { OwedPlan } from "./owed.ts";
import { isSpendable } from "./select-balances.ts";

type AtNow = { nowMs: number };

/** Balances that are named by the legs of some reservations of their account. The plus has SQLite find them by their ids. */
const isReservedBy = (account: SQL, reserving: SQL | undefined) => sql`+${creditBalances.accountId} = ${account}
  AND ${creditBalances.id} IN (
    SELECT leg.value ->> 'balanceId' FROM ${reservations}, json_each(${reservations.legs}) AS leg WHERE ${reserving}
  )`;

/** The balances of some conditions; some may come twice. */
const payingOf = (...conditions: readonly SQL[]) =>
  read(fields(creditBalances, ...PAYING_FIELDS), (list) =>
    sql.join(
      conditions.map((where) => sql`SELECT ${list} FROM ${creditBalances} WHERE ${where}`),
      sql` UNION ALL `,
    ),
  );

const selectPaying = accountQuery((value: ValueOf<AtNow>, account) =>
  payingOf(isSpendable(value, account), isReservedBy(account, isDue(value, account))),
);

const selectPayingCommit = accountQuery(
  (value: ValueOf<AtNow & { reservationId: string; environmentId: number }>, account) =>
    payingOf(
      isSpendable(value, account),
      isReservedBy(account, isDue(value, account)),
      isReservedBy(
        account,
        and(eq(reservations.environmentId, value("environmentId")), eq(reservations.id, value("reservationId"))),
      ),
    ),
);

/** Balances that can pay now, or could at the end of a due reservation that is charged (U15). */
const canPayOrBeCharged = (value: ValueOf<AtNow>, account: SQL) => sql`${creditBalances.accountId} = ${account}
  AND ${creditBalances.hasRemaining} = 1 AND ${creditBalances.expiresAtMs} > coalesce((
    SELECT min(${reservations.expiresAtMs}) FROM ${reservations}
    WHERE ${isDue(value, account)} AND ${reservations.onExpiry} = 'charge'
  ), ${asInteger(value("nowMs"))})`;

/** The balances that can pay now. */
export const selectPayingNow = accountQuery((value: ValueOf<AtNow>, account) => payingOf(isSpendable(value, account)));

/** All balances that matter when the user's due holds are settled; some come twice. */
export const selectBalancesOfDue = accountQuery((value: ValueOf<AtNow>, account) =>
  payingOf(canPayOrBeCharged(value, account), isReservedBy(account, isDue(value, account))),
);

/** The legs of the user's due holds, each with the balance that it returns to, live or not. */
export const selectDueLegs = accountQuery((value: ValueOf<AtNow>, account) =>
  read(
    { ...dueFields(), ...fields(creditBalances, ...PAYING_FIELDS) },
    (list) => sql`SELECT ${list} FROM ${reservations} CROSS JOIN json_each(${reservations.legs}) AS leg
      CROSS JOIN ${creditBalances}
      ON ${creditBalances.id} = leg.value ->> 'balanceId' AND +${creditBalances.accountId} = ${reservations.accountId}
      WHERE ${isDue(value, account)}`,
  ),
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
