import { ONE } from "../books/amounts/amount.ts";
import type { PaymentMotion } from "../books/ledger/insert-takings.ts";
import type { NewBalance } from "../books/ledger/new-balances.ts";
import type { Steps } from "../db/schema.ts";
import { dueOf } from "./money.ts";
import type { PaymentState } from "./state.ts";
import type { StoredGrant } from "./stored-payment.ts";

/** The fields of a payment's balance on which its motion depends. */
export type MovingGrant = Pick<StoredGrant, "balanceId" | "initialSteps" | "dueSteps" | "isSurplus">;

/** Returns a balance that the batch issues. Nothing is due back from it yet. */
export const newGrant = ({ id, amountSteps }: NewBalance): MovingGrant => ({
  ...{ balanceId: id, initialSteps: amountSteps, dueSteps: 0 as Steps, isSurplus: 0 },
});

/** Returns the motions that bring balances from what was due back to what is due now (S4), those that take first. */
export function planMotions({ money }: Pick<PaymentState, "money">, grants: readonly MovingGrant[]): PaymentMotion[] {
  const motions = grants.flatMap(({ balanceId, initialSteps, dueSteps: before, isSurplus }) => {
    const dueSteps = dueOf(initialSteps, isSurplus === 1 ? ONE : money.share);
    if (dueSteps === before) return [];
    return [{ balanceId, dueSteps, isWhole: dueSteps === initialSteps, isMore: dueSteps > before }];
  });
  return motions.toSorted((a, b) => Number(b.isMore) - Number(a.isMore));
}
