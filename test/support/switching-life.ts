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

/** The shop in which a simulated customer acts: plain objects, or the database. */
export interface Switching {
  readonly deliver: (event: TestEvent) => Promise<void> | void;
  /** Spends `steps`, or as much of them as remains. */
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

interface PaidInvoice {
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
    const stored = this.#invoices.get(invoice);
    if (stored === undefined) this.#invoices.set(invoice, { nets: new Map(), back: amount });
    else stored.back = amount;
  }

  /** The cost of remaining and spent credits, less the paid money. If it is above 0, credits are unpaid. */
  excess(standing: readonly Standing[], debt: number): number {
    let excess = -debt;
    for (const [invoice, { nets, back }] of this.#invoices) {
      const all = [...nets.values()].reduce((sum, net) => sum + net, 0);
      for (const [line, net] of nets) {
        const ofLine = standing.filter((balance) => balance.line === `${invoice}:${line}`);
        if (ofLine.length === 0) continue;
        const worth = (steps: number, initial: number) => (steps * net) / initial;
        const spent = Math.max(...ofLine.map((balance) => worth(balance.spentSteps, balance.initialSteps)));
        const remaining = Math.max(...ofLine.map((balance) => worth(balance.remainingSteps, balance.initialSteps)));
        const refunded = (Math.min(back, all) * net) / all;
        const credits = [...this.#credits.values()].filter(
          (credit) => credit.invoice === invoice && credit.line === line,
        );
        const credited = credits.reduce((sum, { amount }) => sum + amount, 0);
        excess += remaining + spent - (net - credited - refunded + Math.min(refunded, spent));
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
  const paid: PaidInvoice[] = [];
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
  const send = async (name: string, event: TestEvent, note: () => void): Promise<void> => {
    if (random.chance(0.15)) {
      late.push({ event, note });
      history.push(`late ${name}`);
      return;
    }
    note();
    history.push(name);
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
  const buy = async (name: string, lines: readonly Line[]): Promise<void> => {
    if (lines.length === 0) return;
    count += 1;
    second += 1;
    const id = `in_${startS}_${count}`;
    const total = lines.reduce((sum, line) => sum + netOf(line), 0);
    const captured = Math.max(0, total);
    const bill = { lines, subscription: { user: "u" }, paid: captured, total, paymentIntent: `pi_${id}` };
    paid.push({ id, lines, captured, refunded: 0, withheld: 0 });
    await send(
      `${name} ${id}: ${lines.map((line) => `${line.price} ${netOf(line)}`).join("; ")}`,
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
  const payBack = async (): Promise<void> => {
    const refundable = paid.filter(({ captured }) => captured > 0);
    if (refundable.length === 0) return;
    const bill = random.pick(refundable);
    const [pi, ch] = [`pi_${bill.id}`, `ch_${bill.id}`];
    second += 1;
    const kind = random.weighted({ refund: 4, failed: 1, withdrawn: 1, reinstated: 1 });
    const note = () => model.setBack(bill.id, Math.min(bill.captured, bill.refunded + bill.withheld));
    let event: TestEvent;
    if (kind === "refund") {
      bill.refunded = random.integer(bill.refunded, bill.captured);
      event = eventOf("charge.refunded", second, charge(ch, pi, bill.refunded, bill.captured));
    } else if (kind === "failed") {
      if (bill.refunded === 0) return;
      count += 1;
      event = eventOf("refund.failed", second, refund(`re_${count}`, ch, pi, bill.refunded, "failed"));
      bill.refunded = 0;
    } else {
      const amount = Math.ceil(bill.captured / 2);
      bill.withheld = kind === "withdrawn" ? amount : 0;
      const moved = kind === "withdrawn" ? [-amount] : [-amount, amount];
      event = eventOf(`charge.dispute.funds_${kind}`, second, dispute(`dp_${bill.id}`, ch, pi, amount, moved));
    }
    // Refund events are sent in order, so that the model needs no rule for the newest event.
    note();
    history.push(`${kind} ${bill.id} ${bill.refunded} ${bill.withheld}`);
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
    const action = random.weighted({ buy: 3, switch: 5, cancel: 2, trial: 1, back: 3, spend: 5, late: 2 });
    if (action === "buy") await buy("buy", [line(), ...(random.chance(0.3) ? [line()] : [])]);
    else if (action === "switch") await buy("switch", [...creditOf(), part(), ...(random.chance(0.2) ? [line()] : [])]);
    else if (action === "cancel") await buy("cancel", creditOf());
    else if (action === "trial") await buy("trial", [{ ...line(), amount: 0, discount: 0 }]);
    else if (action === "back") await payBack();
    else if (action === "spend") {
      const steps = random.integer(1, 3_000_000);
      history.push(`spend ${steps}`);
      await shop.spend(steps);
      await check();
    } else {
      const [next] = late.splice(random.integer(0, Math.max(0, late.length - 1)), 1);
      if (next === undefined) continue;
      next.note();
      history.push(`${next.event.id} comes`);
      await shop.deliver(next.event);
      await check();
    }
  }
  return history;
}
