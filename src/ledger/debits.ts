import { fragment } from "../db/sql.ts";
import { accountSql } from "./account.ts";

/** SQL: the balances that JSON legs name, beside them, in their order. `legs` is SQL. */
export const fromLegs = (legs: string): string => fragment`
  FROM json_each(${legs}) AS leg CROSS JOIN credit_balances AS b
  WHERE b.account_id = ${accountSql} AND b.id = leg.value ->> 'balanceId'`;

// If the balance would be negative, the debit that follows aborts the batch. Until then this must be a valid number.
const left = fragment`max(0, b.remaining_steps - (leg.value ->> 'lessSteps'))`;

/**
 * SQL: a response's debits as JSON. The remaining amounts are read while the batch runs, because the plan may be older: after
 * the entries that follow, a balance has `lessSteps` less. They are written as decimals, digit by digit, because SQLite does
 * not print doubles exactly.
 */
export const debitsOf = (legs: string): string => fragment`(
  SELECT json_group_array(json_object(
    'balanceId', b.id, 'packId', b.pack_id, 'unit', b.unit, 'amount', leg.value -> 'amount',
    'remaining', json(rtrim(rtrim(iif(b.unit = 'cents',
      printf('%d.%06d', ${left} / 1000000, ${left} % 1000000), printf('%d.%03d', ${left} / 1000, ${left} % 1000)
    ), '0'), '.'))
  ))
  ${fromLegs(legs)}
)`;
