import type { Granted, GrantingModel } from "./granting-model.ts";
import type { PaidHistory } from "./paid-history.ts";
import { type Bill, netOf } from "./stripe-model.ts";

/** All credits that the model with a mistake, or Purser, has granted. */
export interface Given {
  readonly carry: (of: Pick<Bill, "customer" | "currency">) => number;
  readonly balances: readonly (Pick<Granted, "bill" | "line" | "unit" | "initial"> & {
    /** Whether something of it could still be spent, though all of it must be given back. */
    readonly stands: boolean;
  })[];
}

/** A line's balance is rounded down to a step, which is worth less than this. */
const STEP_CENTS = 0.02;

/**
 * The money that a line's balance is worth: its net amount, times the share of what the line would be alone. A double is exact enough
 * to compare it with cents.
 */
function worthOf({ bill, line, unit, initial }: Given["balances"][number], judge: GrantingModel): number {
  if (line === null || unit !== "tokens") return 0;
  const [part, of] = judge.aloneOf(bill, line);
  return (netOf(line) * initial * Number(of)) / (judge.minorOf(line) * Number(part));
}

/**
 * Returns what breaks the three properties at the end of S6. `judge` is the model without mistakes: it tells which invoices came, and
 * what of each counts.
 */
export function moneyFlaws(history: PaidHistory, judge: GrantingModel, given: Given, isInOrder: boolean): string[] {
  const { stripe, tainted } = history;
  const flaws: string[] = [];
  const customers = new Map(
    stripe.bills.map(({ customer, currency }) => [`${customer} ${currency}`, { customer, currency }]),
  );
  for (const [key, { customer, currency }] of customers) {
    const bills = stripe.bills.filter((bill) => bill.customer === customer && bill.currency === currency);
    const balances = given.balances.filter(({ bill }) => bills.includes(bill));
    const worth = balances.reduce((sum, balance) => sum + worthOf(balance, judge), 0);
    const charged = bills.reduce((sum, bill) => {
      const { bought, returned } = judge.saleOf(bill).shown;
      return sum + bought - returned;
    }, 0);
    const carry = given.carry({ customer, currency }) - (judge.set.get(key) ?? 0);
    if (worth > charged + carry + STEP_CENTS) {
      flaws.push(`${key} has credits of ${worth}, but was charged ${charged} and has a carry of ${carry}`);
    }
    const isComplete = bills.every(
      (bill) => bill.state !== "open" && (bill.state === "void" || judge.saleOf(bill).isDone),
    );
    if (!isInOrder || tainted.has(customer) || !isComplete) continue;
    const cash = bills
      .filter(({ state }) => state === "paid")
      .reduce((sum, bill) => sum + (bill.cash * (bill.total - bill.tax)) / Math.max(1, bill.total), 0);
    if (worth < cash - STEP_CENTS * (1 + balances.length) - bills.length * STEP_CENTS) {
      flaws.push(`${key} paid ${cash}, which bought credits of ${worth} only`);
    }
  }
  for (const { bill, stands } of given.balances) {
    const isWhole = judge.isWhollyRefunded(bill) && bill.applied === 0;
    if (isWhole && stands) flaws.push(`a balance of ${bill.id} stands after its refund`);
  }
  return flaws;
}
