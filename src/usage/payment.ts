import { sql } from "drizzle-orm";
import { countActivity } from "../activity/count.ts";
import { fromSteps, presentQuantities, type Quantities } from "../amounts/amount.ts";
import { PurserError } from "../errors.ts";
import type { SpendableBalance } from "../ledger/balance.ts";
import type { Payment } from "../ledger/burn-down.ts";
import type { Ctx } from "../runtime.ts";

/** `insufficient_credits` (402), with what nothing paid for (U3); counted for the overview. */
export function insufficient(ctx: Ctx, uncovered: Quantities): PurserError {
  countActivity(ctx.environment.id, "shortage", ctx.now());
  return new PurserError("insufficient_credits", "The user's credits do not cover this.", {
    details: { uncovered: presentQuantities(uncovered) },
  });
}

export type PlannedPayment = Payment<SpendableBalance>;

/** What a statement that writes a payment is given as `legs`, for `debitsSql` or `legsSql`. */
export function plannedLegs({ legs }: PlannedPayment): string {
  return JSON.stringify(
    legs.map(({ balance, amountSteps }) => ({
      balanceId: balance.id,
      amount: fromSteps(balance.unit, amountSteps),
      amountSteps,
    })),
  );
}

const fromLegs = sql`
  FROM json_each(${sql.placeholder("legs")}) AS leg CROSS JOIN credit_balances AS b
  WHERE b.environment_id = ${sql.placeholder("environmentId")} AND b.user_id = ${sql.placeholder("userId")}
    AND b.id = leg.value ->> 'balanceId'`;

// Below zero the debit that follows aborts the batch; until then this must be a number.
const left = sql`max(0, b.remaining_steps - (leg.value ->> 'amountSteps'))`;

/**
 * An answer's debits as JSON. What each balance is left with is read as the batch runs, since a plan may be older; it is
 * written as a decimal, digit by digit, because SQLite prints doubles inexactly.
 */
export const debitsSql = sql`(
  SELECT json_group_array(json_object(
    'balanceId', b.id, 'packId', b.pack_id, 'unit', b.unit, 'amount', leg.value -> 'amount',
    'remaining', json(rtrim(rtrim(iif(b.unit = 'cents',
      printf('%d.%06d', ${left} / 1000000, ${left} % 1000000), printf('%d.%03d', ${left} / 1000, ${left} % 1000)
    ), '0'), '.'))
  ))
  ${fromLegs}
)`;

/** A hold's legs as JSON, in steps (credits/holds.ts, HeldLeg). */
export const legsSql = sql`(
  SELECT json_group_array(json_object(
    'balanceId', b.id, 'packId', b.pack_id, 'unit', b.unit, 'amountSteps', leg.value ->> 'amountSteps',
    'remainingSteps', b.remaining_steps - (leg.value ->> 'amountSteps')
  ))
  ${fromLegs}
)`;
