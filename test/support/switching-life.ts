import type { Random } from "./random.ts";
import { dispute } from "./stripe-disputes.ts";
import { charge, eventOf, refund, type TestEvent } from "./stripe-events.ts";
import { invoice, type Line } from "./stripe-invoices.ts";
import { BEFORE } from "./stripe-versions.ts";

/** A balance of a line. */
export interface Standing {
  /** `<invoice>:<line>`. */
  readonly line: string;
  readonly initialSteps: number;
  readonly remainingSteps: number;
  readonly spentSteps: number;
}

/** Where a simulated customer acts: plain objects, or the database. */
export interface Switching {
  readonly deliver: (event: TestEvent) => Promise<void> | void;
  /** Spends as much as remains. */
  readonly spend: (steps: number) => Promise<void> | void;
  readonly look: () => Promise<Snapshot> | Snapshot;
}
export interface Snapshot {
  readonly standing: readonly Standing[];
  readonly debt: number;
}

/** The plans with their full amounts and steps: Basic is $10 for 1,000 tokens, Pro $30 for 4,000. */
export const PLANS = [
  { price: "price_basic", amount: 1000, steps: 1_000_000 },
  { price: "price_pro", amount: 3000, steps: 4_000_000 },
] as const;

interface Paid {
  readonly id: string;
  readonly lines: readonly Line[];
  readonly captured: number;
  refunded: number;
  withheld: number;
}

const netOf = ({ amount = 0, discount = 0 }: Line): number => amount - Math.sign(amount) * discount;

/**
 * Compares credits with money, without shares or changes. The remaining and spent credits of a user's lines must not cost more
 * than the paid money, less credits, refunds and debts. Credits that were spent before a refund or a dispute are forgiven.
 */
class PaidFor {
  readonly #invoices = new Map<string, { readonly nets: Map<string, number>; back: number }>();
  readonly #credits = new Map<string, { readonly invoice: string; readonly line: string; readonly amount: number }>();

  /** Adds a paid invoice, with the net amounts of its lines above 0. */
  pay(invoice: string, nets: readonly (readonly [line: string, net: number])[]): void {
    this.#invoices.set(invoice, { nets: new Map(nets), back: this.#invoices.get(invoice)?.back ?? 0 });
  }

  credit(id: string, invoice: string, line: string, amount: number): void {
    this.#credits.set(id, { invoice, line, amount });
  }

  /** Sets the refunded and withheld money of an invoice's payment. */
  setBack(invoice: string, amount: number): void {
    const known = this.#invoices.get(invoice);
    if (known === undefined) this.#invoices.set(invoice, { nets: new Map(), back: amount });
    else known.back = amount;
  }

  /** The cost of remaining and spent credits, less the paid money. If it is above 0, credits are unpaid. */
  excess(standing: readonly Standing[], debt: number): number {
    let excess = -debt;
    for (const [invoice, { nets, back }] of this.#invoices) {
      const all = [...nets.values()].reduce((sum, net) => sum + net, 0);
      for (const [line, net] of nets) {
        const own = standing.filter((one) => one.line === `${invoice}:${line}`);
        if (own.length === 0) continue;
        const worth = (steps: number, initial: number) => (steps * net) / initial;
        const spent = Math.max(...own.map((one) => worth(one.spentSteps, one.initialSteps)));
        const stands = Math.max(...own.map((one) => worth(one.remainingSteps, one.initialSteps)));
        const wentBack = (Math.min(back, all) * net) / all;
        const credits = [...this.#credits.values()].filter((one) => one.invoice === invoice && one.line === line);
        const credited = credits.reduce((sum, { amount }) => sum + amount, 0);
        excess += stands + spent - (net - credited - wentBack + Math.min(wentBack, spent));
      }
    }
    return excess;
  }
}

/**
 * Simulates a customer who buys, switches, cancels, is refunded, disputes, has coupons and trials, and spends, in random order, with
 * late and repeated events. After each step it checks that no unpaid credits remain. Returns the history.
 */
export async function liveSwitching(random: Random, shop: Switching, steps: number, startS: number): Promise<string[]> {
  const model = new PaidFor();
  const history: string[] = [];
  const paid: Paid[] = [];
  const late: { readonly event: TestEvent; readonly note: () => void }[] = [];
  let second = startS;
  let count = 0;

  const check = async (): Promise<void> => {
    const { standing, debt } = await shop.look();
    const excess = model.excess(standing, debt);
    // Each taken amount is rounded down to a step, which is worth at most 0.01.
    if (excess > 0.01 * (1 + standing.length * 4)) throw new Error(`${excess} is unpaid after ${history.join(", ")}`);
    if (debt < 0) throw new Error(`The debt is ${debt} after ${history.join(", ")}`);
  };
  const send = async (what: string, event: TestEvent, note: () => void): Promise<void> => {
    if (random.chance(0.15)) {
      late.push({ event, note });
      history.push(`late ${what}`);
      return;
    }
    note();
    history.push(what);
    await shop.deliver(event);
    if (random.chance(0.1)) await shop.deliver(event);
    await check();
  };
  const creditOf = (): Line[] => {
    const [of] = paid.length === 0 ? [] : [random.pick(paid)];
    const lines = of?.lines.filter((line) => netOf(line) > 0) ?? [];
    if (of === undefined || lines.length === 0) return [];
    const { id, price, amount = 0 } = random.pick(lines);
    const back = random.integer(1, amount);
    count += 1;
    return [{ id: `il_c${count}`, price, amount: -back, proration: true, credited: { invoice: of.id, lines: [id] } }];
  };
  const buy = async (what: string, lines: readonly Line[]): Promise<void> => {
    if (lines.length === 0) return;
    count += 1;
    second += 1;
    const id = `in_${startS}_${count}`;
    const total = lines.reduce((sum, line) => sum + netOf(line), 0);
    const captured = Math.max(0, total);
    const bill = { lines, subscription: { user: "u" }, paid: captured, total, paymentIntent: `pi_${id}` };
    paid.push({ id, lines, captured, refunded: 0, withheld: 0 });
    await send(
      `${what} ${id}: ${lines.map((line) => `${line.price} ${netOf(line)}`).join("; ")}`,
      eventOf("invoice.paid", second, invoice(id, bill, BEFORE), BEFORE),
      () => {
        model.pay(
          id,
          lines.filter((line) => netOf(line) > 0).map((line) => [line.id, netOf(line)]),
        );
        for (const line of lines) {
          const { credited } = line;
          const [of = ""] = credited?.lines ?? [];
          if (credited !== undefined) model.credit(`${id}:${line.id}`, credited.invoice, of, -netOf(line));
        }
      },
    );
  };
  const moneyBack = async (): Promise<void> => {
    const able = paid.filter(({ captured }) => captured > 0);
    if (able.length === 0) return;
    const one = random.pick(able);
    const [pi, ch] = [`pi_${one.id}`, `ch_${one.id}`];
    second += 1;
    const what = random.weighted({ refund: 4, failed: 1, withdrawn: 1, reinstated: 1 });
    const note = () => model.setBack(one.id, Math.min(one.captured, one.refunded + one.withheld));
    let event: TestEvent;
    if (what === "refund") {
      one.refunded = random.integer(one.refunded, one.captured);
      event = eventOf("charge.refunded", second, charge(ch, pi, one.refunded, one.captured));
    } else if (what === "failed") {
      if (one.refunded === 0) return;
      count += 1;
      event = eventOf("refund.failed", second, refund(`re_${count}`, ch, pi, one.refunded, "failed"));
      one.refunded = 0;
    } else {
      const amount = Math.ceil(one.captured / 2);
      one.withheld = what === "withdrawn" ? amount : 0;
      const moved = what === "withdrawn" ? [-amount] : [-amount, amount];
      event = eventOf(`charge.dispute.funds_${what}`, second, dispute(`dp_${one.id}`, ch, pi, amount, moved));
    }
    // Refund events are sent in order, so that the model needs no rule for the newest event.
    note();
    history.push(`${what} ${one.id} ${one.refunded} ${one.withheld}`);
    await shop.deliver(event);
    await check();
  };
  const line = (): Line => {
    const { price, amount } = random.pick(PLANS);
    const discount = random.chance(0.3) ? random.integer(1, amount - 1) : 0;
    count += 1;
    return { id: `il_${count}`, price, amount, discount };
  };
  const part = (): Line => {
    const { id, price, amount = 0 } = line();
    return { id, price, amount: random.integer(1, amount), proration: true };
  };

  for (let step = 0; step < steps; step++) {
    const what = random.weighted({ buy: 3, switch: 5, cancel: 2, trial: 1, back: 3, spend: 5, late: 2 });
    if (what === "buy") await buy("buy", [line(), ...(random.chance(0.3) ? [line()] : [])]);
    else if (what === "switch") await buy("switch", [...creditOf(), part(), ...(random.chance(0.2) ? [line()] : [])]);
    else if (what === "cancel") await buy("cancel", creditOf());
    else if (what === "trial") await buy("trial", [{ ...line(), amount: 0, discount: 0 }]);
    else if (what === "back") await moneyBack();
    else if (what === "spend") {
      const steps = random.integer(1, 3_000_000);
      history.push(`spend ${steps}`);
      await shop.spend(steps);
      await check();
    } else {
      const [one] = late.splice(random.integer(0, Math.max(0, late.length - 1)), 1);
      if (one === undefined) continue;
      one.note();
      history.push(`${one.event.id} comes`);
      await shop.deliver(one.event);
      await check();
    }
  }
  return history;
}
