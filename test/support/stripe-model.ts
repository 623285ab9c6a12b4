import { dispute } from "./stripe-disputes.ts";
import { charge, eventOf, type Fields, refund, session, type TestEvent } from "./stripe-events.ts";
import { invoice, invoicePayment } from "./stripe-invoices.ts";
import { type ApiVersion, BEFORE } from "./stripe-versions.ts";

/** An exact fraction. The denominator is above 0. */
export type Ratio = readonly [numerator: bigint, denominator: bigint];

/** A line of an invoice. Amounts are without tax, in the currency's smallest unit. */
export interface BillLine {
  readonly id: string;
  readonly price: string;
  readonly quantity: number;
  /** Before discounts. A negative line gives money back. */
  readonly amount: number;
  /** 0 or more. It brings the amount nearer to 0. */
  readonly discount: number;
  readonly isProration: boolean;
  /** The full amount of one unit that the line tells. Only version BEFORE has it. */
  readonly told: number | null;
  readonly start: number;
  readonly end: number;
}

export const netOf = ({ amount, discount }: Pick<BillLine, "amount" | "discount">): number =>
  Math.sign(amount) * (Math.abs(amount) - discount);

/** A charge of a payment intent. Several may pay one invoice. */
export interface PartPayment {
  readonly intent: string;
  readonly cash: number;
  refunded: number;
  /** The amount of its dispute. */
  disputed: number;
}

/** A payment of a customer: of an invoice, or of a checkout session without one. */
export interface Bill {
  readonly id: string;
  readonly customer: string;
  readonly currency: string;
  /** In seconds. */
  readonly created: number;
  readonly lines: readonly BillLine[];
  readonly subscription: string | null;
  /** The user that its metadata name. */
  readonly user: string | null;
  readonly hasMore: boolean;
  readonly tax: number;
  /** With tax. */
  readonly total: number;
  /** The part that Stripe's customer balance paid. */
  readonly applied: number;
  /** The part that the customer's card pays. */
  readonly cash: number;
  /** The charges of the card. None if it pays nothing. */
  readonly parts: readonly PartPayment[];
  /** The pack that a checkout session of this payment names. */
  readonly sold: { readonly pack: string; readonly user: string } | null;
  state: "open" | "paid" | "void";
}

interface OfPart {
  readonly bill: Bill;
  readonly part: PartPayment;
}

type About =
  | { readonly what: "paid" | "session"; readonly bill: Bill }
  | (OfPart &
      (
        | { readonly what: "tied" }
        | { readonly what: "refunded"; readonly refunded: number }
        | { readonly what: "refundFailed"; readonly refund: string; readonly amount: number }
        | { readonly what: "disputed"; readonly withheld: Ratio }
      ))
  | { readonly what: "linked"; readonly customer: string; readonly user: string };

/** Something that happens at Stripe, and the event that tells it. */
export type Happening = About & { readonly at: number; readonly event: TestEvent };

export interface NewBill {
  readonly customer: string;
  readonly currency: string;
  readonly lines: readonly Omit<BillLine, "id">[];
  readonly subscription?: string | null;
  readonly user?: string | null;
  readonly hasMore?: boolean;
  /** Whether the card is declined, so that the invoice stays open. */
  readonly isDeclined?: boolean;
  readonly sold?: Bill["sold"];
  /** Whether two payment intents pay it. API version BEFORE has only one. */
  readonly isSplit?: boolean;
}

/**
 * Stripe, as far as S3, S4 and S6 depend on it: invoices, each customer's balance in each currency, cash, refunds and disputes. It knows
 * nothing of Purser.
 */
export class StripeModel {
  readonly bills: Bill[] = [];
  readonly balances = new Map<string, number>();
  readonly #id: string;
  readonly #version: ApiVersion;
  readonly #taxPercent: number;
  #second: number;
  #count = 0;

  constructor(options: {
    /** A part of all ids, which makes them unique. */
    readonly id: string;
    readonly nowS: number;
    readonly version: ApiVersion;
    readonly taxPercent: number;
  }) {
    this.#id = options.id;
    this.#second = options.nowS;
    this.#version = options.version;
    this.#taxPercent = options.taxPercent;
  }

  #new(prefix: string): string {
    this.#count += 1;
    return `${prefix}_${this.#id}_${this.#count}`;
  }

  /** Every happening has a second of its own. */
  get #nextSecond(): number {
    this.#second += 1;
    return this.#second;
  }

  get nowS(): number {
    return this.#second;
  }

  advance(seconds: number): void {
    this.#second += seconds;
  }

  balance(customer: string, currency: string): number {
    return this.balances.get(`${customer} ${currency}`) ?? 0;
  }

  give({ customer, currency }: Pick<Bill, "customer" | "currency">, amount: number): void {
    this.balances.set(`${customer} ${currency}`, this.balance(customer, currency) + amount);
  }

  #tell(type: string, object: Fields, about: About): Happening {
    const at = this.#nextSecond;
    return { ...about, at, event: eventOf(type, at, object, this.#version) };
  }

  /** Finalises an invoice. The customer's balance pays first, then the card. A total below 0 goes to the balance. */
  bill(about: NewBill): Happening[] {
    const { customer, currency, subscription = null, user = null, hasMore = false, sold = null } = about;
    const lines = about.lines.map((line) => ({ ...line, id: this.#new("il") }));
    const net = lines.reduce((sum, line) => sum + netOf(line), 0);
    const tax = Math.round((net * this.#taxPercent) / 100);
    const total = net + tax;
    const applied = Math.max(0, Math.min(total, this.balance(customer, currency)));
    const cash = Math.max(0, total) - applied;
    const first = about.isSplit === true && this.#version !== BEFORE ? Math.ceil(cash / 3) : cash;
    const parts = [first, cash - first]
      .filter((amount) => amount > 0)
      .map((amount) => ({ intent: this.#new("pi"), cash: amount, refunded: 0, disputed: 0 }));
    const bill: Bill = {
      ...{ id: this.#new("in"), customer, currency, created: this.#nextSecond, lines, subscription, user, hasMore },
      ...{ tax, total, applied, cash, parts, sold, state: "open" },
    };
    this.give(bill, total < 0 ? -total : -applied);
    this.bills.push(bill);
    return about.isDeclined === true && cash > 0 ? [] : this.pay(bill);
  }

  /** Pays an open invoice by card. */
  pay(bill: Bill): Happening[] {
    bill.state = "paid";
    const happenings: Happening[] = [];
    if (bill.sold !== null) {
      const fields = {
        ...{ client_reference_id: bill.sold.user, metadata: { pack: bill.sold.pack }, currency: bill.currency },
        ...{
          payment_intent: bill.parts[0]?.intent ?? null,
          invoice: bill.id,
          amount_subtotal: bill.total,
          amount_total: bill.total,
        },
      };
      const object = session(`cs_${bill.id}`, fields, this.#version);
      happenings.push(this.#tell("checkout.session.completed", object, { what: "session", bill }));
    }
    happenings.push(this.#tell("invoice.paid", this.#invoiceOf(bill), { what: "paid", bill }));
    for (const part of this.#version === BEFORE ? [] : bill.parts) {
      const object = {
        ...invoicePayment(this.#new("inpay"), bill.id, part.intent, part.cash),
        currency: bill.currency,
      };
      happenings.push(this.#tell("invoice_payment.paid", object, { what: "tied", bill, part }));
    }
    return happenings;
  }

  /** Voids an open invoice. The part that the balance paid returns to it. */
  void(bill: Bill): void {
    bill.state = "void";
    this.give(bill, bill.applied);
  }

  #invoiceOf(bill: Bill): Fields {
    const { id, customer, currency, created, lines, subscription, user, hasMore, tax, total, cash, parts } = bill;
    const shown = lines.map((line) => ({
      ...{ id: line.id, price: line.price, quantity: line.quantity, amount: line.amount, discount: line.discount },
      ...{ proration: line.isProration, period: { start: line.start, end: line.end }, unitAmount: line.told ?? 0 },
    }));
    const metadata: Record<string, string> = user === null ? {} : { user };
    const own = subscription === null ? { metadata } : { subscription: metadata, subscriptionId: subscription };
    const object = invoice(
      id,
      {
        lines: shown,
        customer,
        paid: cash,
        total,
        hasMore,
        ...own,
        ...(parts[0] === undefined ? {} : { paymentIntent: parts[0].intent }),
      },
      this.#version,
    );
    const stored = (object.lines as { data: Fields[] }).data;
    const taxOf = (line: BillLine): number => Math.round((netOf(line) * this.#taxPercent) / 100);
    const taxes = (amount: number) =>
      amount === 0 ? [] : [{ amount, tax_behavior: "exclusive", taxability_reason: "standard_rated", type: "unknown" }];
    const data = stored.map((shownLine, index) => {
      const line = lines[index];
      if (line === undefined) throw new Error("An invoice has a line that nobody billed.");
      const discounts = shownLine.discount_amounts as { readonly amount: number }[];
      // Stripe has sent discounts of negative lines with either sign.
      const sign = line.amount < 0 && index % 2 === 1 ? -1 : 1;
      const common = {
        currency,
        discount_amounts: discounts.map((each) => ({ ...each, amount: sign * each.amount })),
      };
      if (this.#version !== BEFORE) return { ...shownLine, ...common, taxes: taxes(taxOf(line)) };
      const price = { ...(shownLine.price as Fields), currency, unit_amount: line.told };
      const amounts = taxOf(line) === 0 ? [] : [{ amount: taxOf(line), inclusive: false, tax_rate: "txr_1" }];
      return { ...shownLine, ...common, price, tax_amounts: amounts };
    });
    const sums =
      this.#version === BEFORE
        ? { tax, total_tax_amounts: tax === 0 ? [] : [{ amount: tax, inclusive: false, tax_rate: "txr_1" }] }
        : { total_taxes: taxes(tax) };
    return {
      ...{ ...object, ...sums, currency, created, subtotal: total - tax, subtotal_excluding_tax: total - tax },
      ...{ total_excluding_tax: total - tax, lines: { ...(object.lines as Fields), data } },
    };
  }

  /** Refunds up to `amount` more of a charge. */
  refund(bill: Bill, part: PartPayment, amount: number): Happening[] {
    part.refunded = Math.min(part.cash, part.refunded + amount);
    const { refunded } = part;
    return [this.#tell("charge.refunded", this.#chargeOf(bill, part), { what: "refunded", bill, part, refunded })];
  }

  /** A refund fails after it was told, so the money stays. */
  failRefund(bill: Bill, part: PartPayment, amount: number): Happening[] {
    const failed = Math.min(part.refunded, amount);
    if (failed === 0) return [];
    part.refunded -= failed;
    const id = this.#new("re");
    const { intent } = part;
    const object = { ...refund(id, `ch_${intent}`, intent, failed, "failed"), currency: bill.currency };
    return [this.#tell("refund.failed", object, { what: "refundFailed", bill, part, refund: id, amount: failed })];
  }

  #chargeOf({ currency }: Bill, { intent, refunded, cash }: PartPayment): Fields {
    return { ...charge(`ch_${intent}`, intent, refunded, cash, this.#version), currency };
  }

  /** The customer disputes a part of a charge. */
  dispute(bill: Bill, part: PartPayment, amount: number): Happening[] {
    part.disputed = Math.min(part.cash, amount);
    const withheld: Ratio = [BigInt(part.disputed), 1n];
    const about = { what: "disputed", bill, part, withheld } as const;
    return [this.#tell("charge.dispute.funds_withdrawn", this.#disputeOf(bill, part, [-part.disputed]), about)];
  }

  /** `back` of `of` parts of a disputed amount come back; all of it if the dispute is won. */
  reinstate(bill: Bill, part: PartPayment, back: number, of: number, isWon: boolean): Happening[] {
    const withheld: Ratio = isWon ? [0n, 1n] : [BigInt(part.disputed) * BigInt(of - back), BigInt(of)];
    // The balance transactions may be in another currency, so only their ratio counts.
    const object = this.#disputeOf(bill, part, [-of, back], isWon);
    return [this.#tell("charge.dispute.funds_reinstated", object, { what: "disputed", bill, part, withheld })];
  }

  #disputeOf({ currency }: Bill, { intent, disputed }: PartPayment, moved: readonly number[], isWon = false): Fields {
    const status = isWon ? "won" : "needs_response";
    return dispute(`dp_${intent}`, `ch_${intent}`, intent, disputed, moved, currency, status, this.#version);
  }

  /** A checkout session of a subscription names the customer's user. */
  link(customer: string, user: string): Happening[] {
    const fields = { mode: "subscription", customer, client_reference_id: user, metadata: {}, payment_status: "paid" };
    const object = session(this.#new("cs"), fields, this.#version);
    return [this.#tell("checkout.session.completed", object, { what: "linked", customer, user })];
  }
}
