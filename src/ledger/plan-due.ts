import type { Steps } from "../db/schema.ts";
import type { PayingRow, SpendableBalance } from "./balance.ts";
import { burnDown, type Payment } from "./burn-down.ts";
import type { Charge, DueHold } from "./hold.ts";
import { reservedFirst, spendableBalances } from "./spendable-balances.ts";

/** How a due hold is settled. `payment` is what its charge debits, null if it only returns. */
export interface SettledHold {
  readonly hold: DueHold;
  readonly charged: { readonly charge: Charge; readonly payment: Payment<SpendableBalance> } | null;
}

/**
 * Settles due holds one after another, in the order of their ends: each returns, and is then charged if it is to be (U15).
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
  const settled = due.map((hold): SettledHold => {
    for (const { balanceId, amountSteps } of hold.legs) add(balanceId, amountSteps);
    const { charge } = hold;
    if (charge === null) return { hold, charged: null };
    const { event, model, quantities, occurredAtMs } = charge;
    const granted = [...balances.values()].filter(({ grantedAtMs }) => grantedAtMs <= occurredAtMs);
    const usage = { event, model: model ?? undefined, quantities };
    const payment = burnDown(reservedFirst(spendableBalances(granted, occurredAtMs), hold), usage);
    for (const { balance, amountSteps } of payment.legs) add(balance.id, -amountSteps);
    return { hold, charged: { charge, payment } };
  });
  return { settled, rows: [...balances.values()] };
}
