import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { ValueOf } from "../../db/query.ts";
import { creditBalances } from "../../db/schema.ts";
import type { WriteContext } from "./account.ts";
import { isBalanceOf } from "./insert-entries.ts";

/** The balances that JSON legs name, beside them, in their order. */
export const balancesOfLegs = (value: ValueOf<WriteContext>, legs: SQL): SQL =>
  sql`json_each(${legs}) AS leg CROSS JOIN ${creditBalances} ON ${isBalanceOf(value, sql`leg.value ->> 'balanceId'`)}`;

/**
 * An amount in its unit, as JSON. It is written as a decimal, digit by digit, because SQLite does not print doubles exactly. Both
 * expressions stand in it several times, so they have no values.
 */
export const amountOf = (steps: SQL | SQLiteColumn, unit: SQL | SQLiteColumn): SQL =>
  sql`json(iif(${steps} < 0, '-', '') || rtrim(rtrim(
  iif(${unit} = 'cents', printf('%d.%06d', abs(${steps}) / 1000000, abs(${steps}) % 1000000),
    printf('%d.%03d', abs(${steps}) / 1000, abs(${steps}) % 1000)), '0'), '.'))`;

/**
 * A response's debits as JSON. The remaining amounts are read while the batch runs, because the plan may be older: after the
 * entries that follow, a balance has `lessSteps` less.
 */
export function debitsOfLegs(value: ValueOf<WriteContext>, legs: SQL): SQL {
  const { id, packId, unit, remainingSteps } = creditBalances;
  // If the balance would be negative, the debit that follows aborts the batch. Until then this must be a valid number.
  const left = sql`max(0, ${remainingSteps} - (leg.value ->> 'lessSteps'))`;
  return sql`(
    SELECT json_group_array(json_object('balanceId', ${id}, 'packId', ${packId}, 'unit', ${unit},
      'amount', leg.value -> 'amount', 'remaining', ${amountOf(left, unit)}))
    FROM ${balancesOfLegs(value, legs)}
  )`;
}
