import { ONE } from "../books/amounts/amount.ts";
import type { PaymentBalanceChange } from "../books/ledger/insert-clawbacks.ts";
import type { NewBalance } from "../books/ledger/new-balances.ts";
import type { Minor } from "../db/schema.ts";
import { calculateDue } from "./money.ts";
import type { PaymentState } from "./state.ts";
import type { StoredGrant } from "./stored-payment.ts";

/** The fields of a payment's balance on which its change depends. */
export type MovingGrant = Pick<StoredGrant, "balanceId" | "initialMinor" | "dueMinor" | "isSurplus">;

/** Returns a balance that the batch issues. Nothing is due back from it yet. */
export const newGrant = ({ id, amountMinor }: NewBalance): MovingGrant => ({
  ...{ balanceId: id, initialMinor: amountMinor, dueMinor: 0 as Minor, isSurplus: 0 },
});

/** Returns the changes that bring balances from what was due back to what is due now (S4), those that take first. */
export function planChanges(
  { money }: Pick<PaymentState, "money">,
  grants: readonly MovingGrant[],
): PaymentBalanceChange[] {
  const changes = grants.flatMap(({ balanceId, initialMinor, dueMinor: before, isSurplus }) => {
    const dueMinor = calculateDue(initialMinor, isSurplus === 1 ? ONE : money.share);
    if (dueMinor === before) return [];
    return [{ balanceId, dueMinor, isWhole: dueMinor === initialMinor, isMore: dueMinor > before }];
  });
  return changes.toSorted((a, b) => Number(b.isMore) - Number(a.isMore));
}
