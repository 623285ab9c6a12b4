import { type Column, count, type SQL, sql } from "drizzle-orm";
import { computed, drizzle, fields, type ValueOf } from "../../db/query.ts";
import { creditBalances, reservations } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { amountOfSteps, UNITS, type Unit } from "../amounts/amount.ts";
import { accountQuery, type OfUser } from "../ledger/account.ts";
import { isSpendable } from "../ledger/spendable-balances.ts";

/** The most balances that are added up. */
const SUMMED_MAX = 10_000;
/**
 * The factor that splits a sum of steps into two parts, because SQLite's integers hold only a thousand of the largest amounts.
 * The SQL below uses the same million.
 */
const SUM_DIVISOR = 1_000_000n;
export const sumOfSteps = (steps: Column | SQL) =>
  computed({ whole: sql<number>`sum(${steps} / 1000000)`, rest: sql<number>`sum(${steps} % 1000000)` });
export const stepsOfSum = ({ whole, rest }: { readonly whole: number; readonly rest: number }): bigint =>
  BigInt(whole) * SUM_DIVISOR + BigInt(rest);

const selectUserTotals = accountQuery((value: ValueOf<{ nowMs: number }>, account) => {
  const { unit, remainingSteps } = creditBalances;
  const live = sql`SELECT ${unit}, ${remainingSteps} FROM ${creditBalances} INDEXED BY credit_balances_remaining
    WHERE ${isSpendable(value, account)} LIMIT ${SUMMED_MAX}`;
  return drizzle
    .select({
      ...fields(creditBalances, "unit"),
      ...computed({ balances: count() }),
      ...sumOfSteps(remainingSteps),
    })
    .from(sql`(${live}) AS ${creditBalances}`)
    .groupBy(unit);
});

/** Selects the amounts that open reservations hold, by unit. */
const selectUserHeld = accountQuery((_value: ValueOf<OfUser>, account) => {
  const open = sql`SELECT ${reservations.legs} FROM ${reservations} INDEXED BY reservations_open
    WHERE ${reservations.accountId} = ${account} AND ${reservations.state} = 'open' LIMIT ${SUMMED_MAX}`;
  return drizzle
    .select({
      ...computed({ unit: sql<Unit>`leg.value ->> 'unit'`, balances: count() }),
      ...sumOfSteps(sql`(leg.value ->> 'amountSteps')`),
    })
    .from(sql`(${open}) AS ${reservations}`)
    .crossJoin(sql`json_each(${reservations.legs}) AS leg`)
    .groupBy(sql`1`);
});

/** Returns a user's totals by unit. They are exact unless `isPartial`. */
export async function readUserTotals(ctx: TenantCtx, userId: string) {
  const [totals, held] = await batch(ctx.db, [
    selectUserTotals(ctx, { userId }, { nowMs: ctx.now() }),
    selectUserHeld(ctx, { userId }, {}),
  ]);
  const balances = totals.reduce((count, row) => count + row.balances, 0);
  const units = UNITS.flatMap((unit) => {
    const [own, hold] = [totals.find((row) => row.unit === unit), held.find((row) => row.unit === unit)];
    if (own === undefined && hold === undefined) return [];
    const remainingSteps = own === undefined ? 0n : stepsOfSum(own);
    const heldSteps = hold === undefined ? 0n : stepsOfSum(hold);
    return [
      {
        unit,
        remainingSteps,
        remaining: amountOfSteps(unit, remainingSteps),
        held: amountOfSteps(unit, heldSteps),
      },
    ];
  });
  return { units, balances, isPartial: balances >= SUMMED_MAX };
}
