import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { ValueOf } from "../../db/query.ts";
import { creditBalances } from "../../db/schema.ts";
import { fragment } from "../../db/sql.ts";
import { accountSql, type WriteContext } from "./account.ts";
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

// The same for statements that are not of Drizzle yet.

/** SQL: the balances that JSON legs name, beside them, in their order. `legs` is SQL. */
export const fromLegs = (legs: string): string => fragment`
  FROM json_each(${legs}) AS leg CROSS JOIN credit_balances AS b
  WHERE b.account_id = ${accountSql} AND b.id = leg.value ->> 'balanceId'`;

/**
 * SQL: an amount in its unit, as JSON, from SQL for its steps and its unit. It is written as a decimal, digit by digit, because
 * SQLite does not print doubles exactly.
 */
export const amountSql = (
  steps: string,
  unit: string,
): string => fragment`json(iif(${steps} < 0, '-', '') || rtrim(rtrim(
  iif(${unit} = 'cents', printf('%d.%06d', abs(${steps}) / 1000000, abs(${steps}) % 1000000),
    printf('%d.%03d', abs(${steps}) / 1000, abs(${steps}) % 1000)), '0'), '.'))`;

// If the balance would be negative, the debit that follows aborts the batch. Until then this must be a valid number.
const left = fragment`max(0, b.remaining_steps - (leg.value ->> 'lessSteps'))`;

/**
 * SQL: a response's debits as JSON. The remaining amounts are read while the batch runs, because the plan may be older: after
 * the entries that follow, a balance has `lessSteps` less.
 */
export const debitsOf = (legs: string): string => fragment`(
  SELECT json_group_array(json_object(
    'balanceId', b.id, 'packId', b.pack_id, 'unit', b.unit, 'amount', leg.value -> 'amount',
    'remaining', ${amountSql(left, "b.unit")}
  ))
  ${fromLegs(legs)}
)`;
