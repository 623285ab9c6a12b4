import type { Steps } from "../../db/schema.ts";
import type { PayingRow, SpendableBalance } from "./balance.ts";
import { burnDown, type Payment } from "./burn-down.ts";
import type { Charge, DueHold } from "./hold.ts";
import { OwedPlan } from "./owed.ts";
import { reservedFirst, spendableBalances } from "./spendable-balances.ts";

/** How a due hold is settled. `payment` is what its charge debits, null if it only returns. */
export interface SettledHold {
  readonly hold: DueHold;
  readonly charged: { readonly charge: Charge; readonly payment: Payment<SpendableBalance> } | null;
  /** What its balances paid of what they owed, behind the charge. */
  readonly paid: readonly { readonly balanceId: string; readonly steps: number }[];
}

/**
 * Settles due holds one after another, in the order of their ends: each returns, is charged if it is to be (U15), and pays what it owes (C21).
 * A charge is paid as a commit at its reservation's end: balances granted later do not pay, those that expired since do.
 * Answers each balance as it is afterwards, once. Pure.
 */
export function planDue<Row extends PayingRow>(
  rows: readonly Row[],
  due: readonly DueHold[],
): { readonly settled: readonly SettledHold[]; readonly rows: readonly Row[] } {
  const balances = new Map(rows.map((row) => [row.id, row]));
  const add = (id: string, steps: number) => {
    const row = balances.get(id);
    // What returns to a revoked balance is taken back at once (U9).
    if (row === undefined || row.revokedAtMs !== null) return;
    balances.set(id, { ...row, remainingSteps: (row.remainingSteps + steps) as Steps });
  };
  const plan = new OwedPlan();
  const settled = due.map((hold): SettledHold => {
    for (const { balanceId, amountSteps } of hold.legs) add(balanceId, amountSteps);
    const charged = chargeOf(hold);
    const debited = new Map(charged?.payment.legs.map(({ balance, amountSteps }) => [balance.id, amountSteps]));
    for (const [id, steps] of debited) add(id, -steps);
    const paid = hold.legs.map(({ balanceId, amountSteps }) => {
      const steps = plan.pay(hold.owed, balanceId, amountSteps - (debited.get(balanceId) ?? 0));
      add(balanceId, -steps);
      return { balanceId, steps };
    });
    return { hold, charged, paid };
  });
  function chargeOf(hold: DueHold): SettledHold["charged"] {
    const { charge } = hold;
    if (charge === null) return null;
    const { event, model, quantities, occurredAtMs } = charge;
    const granted = [...balances.values()].filter(({ grantedAtMs }) => grantedAtMs <= occurredAtMs);
    const usage = { event, model: model ?? undefined, quantities };
    const payment = burnDown(reservedFirst(spendableBalances(granted, occurredAtMs), hold), usage);
    return { charge, payment };
  }
  return { settled, rows: [...balances.values()] };
}
