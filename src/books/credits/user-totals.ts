import { batch, statement } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { amountOfSteps, UNITS, type Unit } from "../amounts/amount.ts";
import { aboutAccount } from "../ledger/account.ts";
import { canPay } from "../ledger/select-balances.ts";

/** At most this many balances are added up. */
const SUMMED_MAX = 10_000;
/** A sum is kept in two parts, because SQLite's integers hold a thousand of the largest amounts. */
const APART = 1_000_000n;

interface TotalRow {
  readonly unit: Unit;
  readonly balances: number;
  readonly whole: number;
  readonly rest: number;
}

const selectTotals = aboutAccount<{ nowMs: number }, TotalRow>(
  (account) => statement`
    SELECT unit, count(*) AS balances, sum(remaining_steps / ${`${APART}`}) AS whole,
      sum(remaining_steps % ${`${APART}`}) AS rest
    FROM (
      SELECT unit, remaining_steps FROM credit_balances INDEXED BY credit_balances_remaining
      WHERE ${canPay(account)} LIMIT ${`${SUMMED_MAX}`}
    ) GROUP BY unit`,
);

/** What open reservations hold, by unit, of those that are not settled. */
const selectHeld = aboutAccount<Record<never, never>, TotalRow>(
  (account) => statement`
    SELECT leg.value ->> 'unit' AS unit, count(*) AS balances,
      sum((leg.value ->> 'amountSteps') / ${`${APART}`}) AS whole,
      sum((leg.value ->> 'amountSteps') % ${`${APART}`}) AS rest
    FROM (
      SELECT legs FROM reservations INDEXED BY reservations_open
      WHERE account_id = ${account} AND state = 'open' LIMIT ${`${SUMMED_MAX}`}
    ) AS r, json_each(r.legs) AS leg GROUP BY 1`,
);

const stepsOf = ({ whole, rest }: TotalRow): bigint => BigInt(whole) * APART + BigInt(rest);

/** What a user has by unit: exact, unless `isPartial`. */
export async function readUserTotals(ctx: TenantCtx, userId: string) {
  const [totals, held] = await batch(ctx.db, [
    selectTotals(ctx, { userId }, { nowMs: ctx.now() }),
    selectHeld(ctx, { userId }, {}),
  ]);
  const balances = totals.reduce((count, row) => count + row.balances, 0);
  const units = UNITS.flatMap((unit) => {
    const [own, hold] = [totals.find((row) => row.unit === unit), held.find((row) => row.unit === unit)];
    if (own === undefined && hold === undefined) return [];
    const remainingSteps = own === undefined ? 0n : stepsOf(own);
    const heldSteps = hold === undefined ? 0n : stepsOf(hold);
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
