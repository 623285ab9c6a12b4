import { amountOfSteps } from "../books/amounts/amount.ts";
import type { previewGrant } from "../books/credits/grant.ts";
import type { readUserTotals } from "../books/credits/user-totals.ts";
import { amount, time } from "./format.ts";

interface IssuedProps {
  readonly plan: Awaited<ReturnType<typeof previewGrant>>;
  readonly totals: Awaited<ReturnType<typeof readUserTotals>>;
  /** As it was typed. */
  readonly quantity: string | undefined;
}

/** What a grant would issue, and what the user would have: facts of its confirmation. */
export const IssuedFacts = ({ plan, totals, quantity }: IssuedProps) => {
  const units = [...new Set(plan.amounts.map(({ unit }) => unit))];
  const after = units.map((unit) => {
    const issued = plan.amounts.filter((each) => each.unit === unit);
    const steps = issued.reduce((sum, each) => sum + BigInt(each.amountSteps), 0n);
    const before = totals.units.find((each) => each.unit === unit)?.remainingSteps ?? 0n;
    return `${amount(amountOfSteps(unit, before))} → ${amount(amountOfSteps(unit, before + steps))} ${unit}`;
  });
  return (
    <>
      <dt>Pack</dt>
      <dd>{plan.packName}</dd>
      <dt>Credits issued</dt>
      <dd>
        <b>{plan.amounts.map((each) => `${amount(each.amount)} ${each.unit}`).join(", ")}</b>
      </dd>
      <dt>The user's total afterwards</dt>
      <dd>
        {after.join(", ")}
        {totals.isPartial ? " (at least: the user has too many balances to add up)" : ""}
      </dd>
      {plan.ignoresQuantity && (
        <>
          <dt>Ignored</dt>
          <dd>The quantity {quantity}: this pack issues the amounts of its items.</dd>
        </>
      )}
      <dt>Expires (UTC)</dt>
      <dd>{time(plan.expiresAt)}</dd>
    </>
  );
};
