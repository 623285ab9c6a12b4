import fc from "fast-check";
import type { GrantingModel, GrantingSetting, SoldPack, SoldPrice } from "./granting-model.ts";
import { type Bill, type BillLine, type Happening, type NewBill, netOf, StripeModel } from "./stripe-model.ts";
import { type ApiVersion, BEFORE, VERSIONS } from "./stripe-versions.ts";

/** Legacy packs have one item here, and a quantity of it in the setting. */
const PACKS = {
  basic: { name: "Basic", items: [{ unit: "tokens", minor: 1_000_000 }] },
  pro: {
    name: "Pro",
    items: [
      { unit: "tokens", minor: 4_000_000 },
      { unit: "cents", minor: 7_000_001 },
    ],
  },
  seat: { name: "Seat", items: [{ unit: "tokens", minor: 333_333 }] },
} as const satisfies Record<string, SoldPack>;

/** The setting's amount of Pro differs from its price at Stripe, and that of a seat is not set. */
const SOLD: readonly SoldPrice[] = [
  { price: "price_basic", pack: PACKS.basic, amount: 1000, trial: true },
  { price: "price_pro", pack: PACKS.pro, amount: 2900, isPeriod: true },
  { price: "price_seat", pack: PACKS.seat, trial: true },
];
export const SETTING: GrantingSetting = { currency: "usd", prices: SOLD };

const PLANS = ["price_basic", "price_pro", "price_seat"] as const;
const OTHER = "price_other";
/** The prices at Stripe. */
const FULL: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  usd: { price_basic: 1000, price_pro: 3000, price_seat: 800, [OTHER]: 1500 },
  eur: { price_basic: 1200, price_pro: 2800, price_seat: 600, [OTHER]: 1500 },
};
const CUSTOMERS = ["a", "b", "c"] as const;
/** The customers `a` and `b` pay for the same user. */
const USER_OF: Readonly<Record<string, string>> = { a: "ada", b: "ada", c: "cy" };
const PERIOD_S = 30 * 86_400;
const TAX_PERCENT = 10;

const ACTIONS = {
  ...{
    subscribe: 7,
    renew: 4,
    switch: 9,
    toggle: 5,
    cancel: 5,
    oneOff: 2,
    other: 2,
    pay: 3,
    void: 2,
    topUp: 2,
    gift: 1,
  },
  ...{ refund: 4, failRefund: 2, dispute: 2, reinstate: 2, link: 2, late: 5, repeat: 3 },
  ...{ atOnce: 5, erase: 1 },
  ...{ prices: 1, carry: 1, settle: 2, spend: 4, hold: 3, endHold: 3, wait: 2 },
} as const;
type Action = keyof typeof ACTIONS;
/** The actions whose events may come at once. */
const TOGETHER = ["switch", "cancel", "refund", "renew", "switch", "dispute", "link", "subscribe"] as const;
const AT_ONCE_MAX = 3;
/** The user for whom payments are settled after an erasure. */
const HEIR = "dee";

/** A step of a history. The numbers choose among what is possible at that moment. */
export interface Command {
  readonly action: Action;
  readonly x: number;
  readonly y: number;
  readonly z: number;
  readonly isLate: boolean;
}

export interface Plot {
  readonly version: ApiVersion;
  readonly isTaxed: boolean;
  /** Whether every event comes at once. */
  readonly isInOrder: boolean;
  readonly commands: readonly Command[];
}

const choice = fc.nat(9_999);
const action = fc.oneof(
  ...Object.entries(ACTIONS).map(([name, weight]) => ({ weight, arbitrary: fc.constant(name as Action) })),
);

export const plots = (length: number): fc.Arbitrary<Plot> =>
  fc.record({
    version: fc.constantFrom(...VERSIONS),
    isTaxed: fc.boolean(),
    isInOrder: fc.boolean(),
    commands: fc.array(
      fc.record({
        action,
        x: choice,
        y: choice,
        z: choice,
        isLate: fc.integer({ min: 1, max: 6 }).map((n) => n === 1),
      }),
      { minLength: 4, maxLength: length, size: "max" },
    ),
  });

export const taxPercentOf = ({ isTaxed }: Plot): number => (isTaxed ? TAX_PERCENT : 0);

/** A history acts on this: on models, or on Purser with its database. */
export interface Shop {
  readonly take: (happening: Happening) => Promise<void> | void;
  /** Takes events that come at once, each twice. */
  readonly takeAtOnce: (happenings: readonly Happening[]) => Promise<void> | void;
  readonly erase: (user: string) => Promise<void> | void;
  readonly setPrices: (prices: readonly SoldPrice[]) => Promise<void> | void;
  readonly setCarry: (of: Pick<Bill, "customer" | "currency">, amount: number) => Promise<void> | void;
  readonly settle: (bill: Bill, user: string, pack: SoldPack, times: number) => Promise<void> | void;
  readonly spend: (action: "spend" | "hold" | "endHold" | "wait", user: string, x: number) => Promise<void> | void;
  /** Is called after each step. */
  readonly check: () => Promise<void> | void;
}

interface Subscription {
  readonly id: string;
  readonly customer: string;
  readonly currency: string;
  readonly user: string | null;
  price: string;
  quantity: number;
  coupon: number;
  /** The money of its current period, for one unit. 0 in a trial. */
  paid: number;
  start: number;
  end: number;
}

/** Customers who subscribe, switch, cancel, pay late, dispute and so on, in the order of a plot. */
export class PaidHistory {
  readonly stripe: StripeModel;
  readonly told: string[] = [];
  /** Customers with invoices that grant less or more than their cash, such as of other products. */
  readonly tainted = new Set<string>();
  readonly #plot: Plot;
  readonly #shop: Shop;
  readonly #judge: GrantingModel;
  readonly #id: string;
  readonly #late: Happening[] = [];
  readonly #came: Happening[] = [];
  /** Collects events that are delivered at once. Null if they are delivered one by one. */
  #atOnce: Happening[] | null = null;
  #subscriptions: Subscription[] = [];
  #prices = SOLD;
  #count = 0;

  constructor(plot: Plot, shop: Shop, judge: GrantingModel, about: { readonly id: string; readonly nowS: number }) {
    this.#plot = plot;
    this.#shop = shop;
    this.#judge = judge;
    this.#id = about.id;
    this.stripe = new StripeModel({ ...about, version: plot.version, taxPercent: taxPercentOf(plot) });
  }

  async run(): Promise<void> {
    for (const command of this.#plot.commands) {
      await this.#act(command);
      // An invoice that waits for its user, or for the operator, is granted after later ones.
      for (const bill of this.stripe.bills) {
        const { isTold, isDone } = this.#judge.saleOf(bill);
        if (isTold && !isDone) this.tainted.add(bill.customer);
      }
      await this.#shop.check();
    }
    for (const happening of this.#late.splice(0)) await this.#deliver(happening);
    await this.#shop.check();
  }

  async #deliver(happening: Happening): Promise<void> {
    if (this.#atOnce !== null) {
      this.#atOnce.push(happening);
      return;
    }
    this.#came.push(happening);
    const of = happening.what === "linked" ? happening.customer : `${happening.bill.id} ${moneyOf(happening.bill)}`;
    this.told.push(`${happening.what} ${of}`);
    await this.#shop.take(happening);
  }

  /** Delivers at once what two other actions bring, a late event and a repeated one. The order of these is open. */
  async #deliverAtOnce(command: Command): Promise<void> {
    const { x, y, z } = command;
    const events: Happening[] = [];
    this.#atOnce = events;
    await this.#act({ ...command, action: pick(TOGETHER, x), isLate: false });
    await this.#act({ ...command, action: pick(TOGETHER, y), isLate: false, x: y, y: z, z: x });
    await this.#act({ ...command, action: "late" });
    await this.#act({ ...command, action: "repeat" });
    this.#atOnce = null;
    const chosen = [...new Set(events)];
    const atOnce = chosen.splice(0, AT_ONCE_MAX);
    for (const happening of atOnce) {
      this.#came.push(happening);
      this.told.push(
        `at once: ${happening.what} ${happening.what === "linked" ? happening.customer : happening.bill.id}`,
      );
      this.tainted.add(happening.what === "linked" ? happening.customer : happening.bill.customer);
    }
    if (atOnce.length > 0) await this.#shop.takeAtOnce(atOnce);
    for (const happening of chosen) await this.#deliver(happening);
  }

  /** Delivers events, or keeps some or all of them for later. */
  async #send(happenings: readonly Happening[], { isLate, z }: Command): Promise<void> {
    for (const [index, happening] of happenings.entries()) {
      if (isLate && !this.#plot.isInOrder && (z + index) % 3 > 0) this.#late.push(happening);
      else await this.#deliver(happening);
    }
  }

  async #bill(about: NewBill, command: Command): Promise<void> {
    // One invoice in eight is declined at first.
    const isDeclined = command.z % 8 === 0;
    const isOdd = command.z % 16 === 1;
    const lines = [...about.lines];
    const [first] = lines;
    if (command.z % 16 === 2 && first !== undefined) {
      const more = { ...first, price: command.y % 2 === 0 ? OTHER : first.price, isProration: true, told: null };
      lines.push({ ...more, amount: 400, discount: 0, quantity: command.y % 4 === 1 ? 0 : 1 });
      this.tainted.add(about.customer);
    }
    const isBefore = this.stripe.bills.some(({ customer, state }) => customer === about.customer && state === "open");
    if (isOdd || isBefore) this.tainted.add(about.customer);
    const isSplit = command.y % 3 === 0 && about.sold === undefined;
    await this.#send(this.stripe.bill({ ...about, lines, hasMore: isOdd, isDeclined, isSplit }), command);
  }

  /** The part of a period that is left, in thousandths. With tax, amounts divide by ten. */
  #part(x: number): number {
    return this.#plot.isTaxed ? 100 * (1 + (x % 10)) : 1 + (x % 1_000);
  }

  #line(
    { price, quantity, coupon, currency, start, end }: Omit<Subscription, "paid" | "id" | "user" | "customer">,
    more: { readonly part?: number; readonly isBack?: boolean; readonly of?: number; readonly isSilent?: boolean },
  ): Omit<BillLine, "id"> {
    const { part, isBack = false, isSilent = false } = more;
    const full = FULL[currency]?.[price] ?? 0;
    const gross = Math.round(((more.of ?? full) * quantity * (part ?? 1_000)) / 1_000);
    const told = this.#plot.version === BEFORE && !isSilent ? full : null;
    return {
      ...{ price, quantity, amount: isBack ? 0 - gross : gross, discount: Math.floor((gross * coupon) / 100) },
      ...{ isProration: part !== undefined, told, start, end },
    };
  }

  async #act(command: Command): Promise<void> {
    const { action: name, x, y, z } = command;
    const { stripe } = this;
    const subscription = this.#subscriptions[x % Math.max(1, this.#subscriptions.length)];
    const customer = `cus_${pick(CUSTOMERS, x)}_${this.#id}`;
    const user = USER_OF[pick(CUSTOMERS, x)] ?? "";
    const currency = y % 4 === 0 ? "eur" : "usd";
    const bills = stripe.bills.filter(({ state, cash }) => state === "paid" && cash > 0);
    const bill = bills[x % Math.max(1, bills.length)];
    const part = bill?.parts[z % bill.parts.length];
    switch (name) {
      case "subscribe": {
        const [start, end] = [stripe.nowS, stripe.nowS + PERIOD_S];
        const isTrial = y % 3 === 1;
        const coupon = pick([0, 0, 0, 0, 50, 100], y);
        this.#count += 1;
        const named = this.#judge.erased.has(user) && y % 4 > 0 ? HEIR : user;
        const made: Subscription = {
          ...{ id: `sub_${this.#id}_${this.#count}`, customer, currency, user: pick([null, named, named, "bob"], x) },
          ...{
            price: pick(PLANS, z),
            quantity: 1 + (Math.floor(y / 10) % 3),
            coupon,
            paid: isTrial ? 0 : 1,
            start,
            end,
          },
        };
        this.#subscriptions.push(made);
        const line = this.#line(made, {});
        await this.#billOf(made, [isTrial ? { ...line, amount: 0, discount: 0 } : line], command);
        return;
      }
      case "renew": {
        if (subscription === undefined) return;
        stripe.advance(Math.max(0, subscription.end - stripe.nowS));
        Object.assign(subscription, { start: subscription.end, end: subscription.end + PERIOD_S, paid: 1 });
        // A coupon may end.
        if (y % 3 === 0) subscription.coupon = 0;
        await this.#billOf(subscription, [this.#line(subscription, {})], command);
        return;
      }
      case "switch":
      case "toggle": {
        if (subscription === undefined) return;
        const lines: Omit<BillLine, "id">[] = [];
        const changes = name === "switch" ? 1 : 2 + (y % 2);
        for (let change = 0; change < changes; change++) {
          const part = this.#part(x + change * (z % 3));
          const isSilent = y % 4 === 1;
          if (subscription.paid > 0) lines.push(this.#line(subscription, { part, isBack: true, isSilent }));
          subscription.price = pick(PLANS, z + change + 1);
          subscription.quantity = 1 + ((y + change) % 3);
          subscription.paid = 1;
          // Some changes of a price begin a new period, with a full line.
          const isNew = y % 5 === 2 && change === changes - 1;
          if (isNew) Object.assign(subscription, { start: stripe.nowS, end: stripe.nowS + PERIOD_S });
          lines.push(this.#line(subscription, isNew ? {} : { part, isSilent }));
          if (isNew && y % 2 === 0) lines.push(this.#line(subscription, { part, isSilent: true }));
        }
        await this.#billOf(subscription, lines, command);
        return;
      }
      case "cancel": {
        if (subscription === undefined) return;
        this.#subscriptions = this.#subscriptions.filter((each) => each !== subscription);
        if (subscription.paid === 0) return;
        await this.#billOf(subscription, [this.#line(subscription, { part: this.#part(y), isBack: true })], command);
        return;
      }
      case "oneOff":
      case "other": {
        const price = name === "other" ? OTHER : pick(PLANS, z);
        if (name === "other") this.tainted.add(customer);
        const [start, end] = [stripe.nowS, stripe.nowS];
        const line = this.#line({ price, quantity: 1 + (y % 2), coupon: 0, currency, start, end }, {});
        const named = name === "other" || z % 5 === 0 ? null : user;
        await this.#bill({ customer, currency, lines: [line], user: named }, command);
        return;
      }
      case "topUp": {
        if (this.#judge.erased.has(user)) return;
        // A checkout session with an invoice of its own. Whichever is told first grants.
        this.tainted.add(customer);
        const [start, end] = [stripe.nowS, stripe.nowS];
        const line = this.#line({ price: "price_basic", quantity: 1, coupon: 0, currency, start, end }, {});
        if (stripe.balance(customer, currency) > 0) return;
        const sold = { pack: PACKS.basic.name, user };
        const [told, ...others] = stripe.bill({ customer, currency, lines: [line], user, sold });
        const isInvoiceFirst = y % 2 === 0 && this.#judge.carry({ customer, currency }) === 0;
        const inOrder = told === undefined ? others : isInvoiceFirst ? [...others, told] : [told, ...others];
        await this.#send(inOrder, { ...command, isLate: false });
        return;
      }
      case "gift":
        // The seller adds to the customer's balance at Stripe, which Purser is not told.
        this.tainted.add(customer);
        stripe.give({ customer, currency }, 100 * (1 + (y % 10)));
        return;
      case "pay":
      case "void": {
        const open = stripe.bills.filter(({ state }) => state === "open");
        const late = open[x % Math.max(1, open.length)];
        if (late === undefined) return;
        if (name === "pay") await this.#send(stripe.pay(late), command);
        else stripe.void(late);
        return;
      }
      case "refund":
        if (bill === undefined || part === undefined) return;
        if (y % 4 === 3) {
          // Of two refunds the second is told first.
          const told = [...stripe.refund(bill, part, 1 + (y % part.cash)), ...stripe.refund(bill, part, part.cash)];
          await this.#send(this.#plot.isInOrder ? told : told.toReversed(), command);
        } else if (y % 4 === 2) {
          await this.#send(
            bill.parts.flatMap((each) => stripe.refund(bill, each, each.cash)),
            command,
          );
        } else await this.#send(stripe.refund(bill, part, y % 2 === 0 ? part.cash : 1 + (y % part.cash)), command);
        return;
      case "failRefund":
        if (bill === undefined || part === undefined) return;
        await this.#send(stripe.failRefund(bill, part, 1 + y), command);
        return;
      case "dispute":
        if (bill === undefined || part === undefined || part.disputed > 0) return;
        await this.#send(stripe.dispute(bill, part, y % 3 === 0 ? 1 + (y % part.cash) : part.cash), command);
        return;
      case "reinstate": {
        const disputed = bills.flatMap((of) =>
          of.parts.filter((each) => each.disputed > 0).map((each) => ({ of, each })),
        );
        const back = disputed[x % Math.max(1, disputed.length)];
        if (back === undefined) return;
        await this.#send(stripe.reinstate(back.of, back.each, y % 8, 7, z % 3 === 0), command);
        return;
      }
      case "link":
        await this.#send(stripe.link(customer, user), command);
        return;
      case "atOnce":
        await this.#deliverAtOnce(command);
        return;
      case "late": {
        const [next] = this.#late.splice(x % Math.max(1, this.#late.length), 1);
        if (next !== undefined) await this.#deliver(next);
        return;
      }
      case "repeat": {
        const again = this.#came[x % Math.max(1, this.#came.length)];
        if (again !== undefined) await this.#deliver(again);
        return;
      }
      default:
        await this.#operate(command, customer, user, currency);
    }
  }

  async #billOf(
    { id, customer, currency, user }: Subscription,
    lines: NewBill["lines"],
    command: Command,
  ): Promise<void> {
    await this.#bill({ customer, currency, lines, subscription: id, user }, command);
  }

  /** Acts as the operator or as the user. */
  async #operate({ action: name, x, y }: Command, customer: string, user: string, currency: string): Promise<void> {
    switch (name) {
      case "prices": {
        for (const each of CUSTOMERS) this.tainted.add(`cus_${each}_${this.#id}`);
        const left = PLANS[1 + (x % 2)];
        this.#prices = this.#prices.length < SOLD.length ? SOLD : SOLD.filter(({ price }) => price !== left);
        this.told.push(`prices ${this.#prices.map(({ price }) => price)}`);
        await this.#shop.setPrices(this.#prices);
        return;
      }
      case "carry":
        // Purser rejects customers of which it knows nothing.
        if (
          ![...this.#judge.sales.values()].some(
            ({ bill, isDone }) => isDone && bill.sold === null && bill.customer === customer,
          )
        )
          return;
        this.tainted.add(customer);
        this.told.push(`carry ${customer} ${currency} ${y % 2_000}`);
        await this.#shop.setCarry({ customer, currency }, y % 2_000);
        return;
      case "settle": {
        const able = this.stripe.bills.filter((bill) => this.#judge.canSettle(bill));
        const bill = able[x % Math.max(1, able.length)];
        if (bill === undefined) return;
        this.tainted.add(bill.customer);
        this.told.push(`settle ${bill.id}`);
        const of = USER_OF[bill.customer.split("_")[1] ?? ""] ?? "";
        await this.#shop.settle(bill, this.#judge.erased.has(of) ? HEIR : of, PACKS.basic, 1 + (y % 2));
        return;
      }
      case "erase":
        if (this.#judge.erased.has(user)) return;
        for (const each of CUSTOMERS) this.tainted.add(`cus_${each}_${this.#id}`);
        this.told.push(`erase ${user}`);
        await this.#shop.erase(user);
        return;
      case "spend":
      case "hold":
      case "endHold":
      case "wait":
        this.told.push(`${name} ${user} ${y}`);
        await this.#shop.spend(name, user, y);
        return;
      default:
        throw new Error(`Nothing does ${name}.`);
    }
  }
}

const pick = <Value>(list: readonly Value[], x: number): Value => list[x % list.length] as Value;
const moneyOf = ({ lines, cash, applied, currency, hasMore }: Bill): string =>
  `(${lines.map((line) => `${line.price.slice(6)}×${line.quantity} ${netOf(line)}${line.isProration ? " part" : ""}`).join(", ")}${hasMore ? ", more" : ""}: ${cash} ${currency} and ${applied} of the balance)`;
