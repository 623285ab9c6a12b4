import { type Bill, type BillLine, type Happening, netOf, type PartPayment, type Ratio } from "./stripe-model.ts";
import { BEFORE } from "./stripe-versions.ts";

/** A pack with the minor units of its items. The quantity of an open-amount pack stands here as one item. */
export interface SoldPack {
  readonly name: string;
  readonly items: readonly { readonly unit: "tokens" | "cents"; readonly minor: number }[];
}

export interface SoldPrice {
  readonly price: string;
  readonly pack: SoldPack;
  readonly trial?: boolean;
  /** The full amount of one, in the setting's currency. */
  readonly amount?: number;
  /** Whether its credits expire with the period of the line. */
  readonly isPeriod?: boolean;
}

export interface GrantingSetting {
  readonly currency: string;
  readonly prices: readonly SoldPrice[];
}

/** Sentences of S3 and S6 that a wrong implementation leaves out or changes. The three properties of money find each of them. */
export const MONEY_MISTAKES = [
  "bought counts amounts before discounts",
  "returned counts amounts before discounts",
  "nothing is returned",
  "only the first negative line is returned",
  "amounts are with tax",
  "lines of other products count",
  "lines of quantity 0 count",
  "lines of a price that left the setting no longer count",
  "the carry is not subtracted",
  "the carry grows by nothing",
  "the carry forgets what it was",
  "the carry may fall below 0",
  "the carry is the user's",
  "the carry is shared by currencies",
  "the carry is shared by customers",
  "each line is granted whole",
  "the share is of paid for and returned",
  "the share is rounded to whole percents",
  "a proration line is granted whole",
  "a proration line counts its amount before discounts",
  "a full line is granted by its net amount",
  "the setting's amount goes before the line's own",
  "a full line of the invoice goes before the setting's amount",
  "the setting's amount counts in every currency",
  "the setting's amount does not count",
  "a full line of the invoice is not asked",
  "a full line of the invoice counts without its quantity",
  "a full line of the invoice counts after discounts",
  "an unknown full amount changes the carry",
  "an unknown full amount grants the whole",
  "a repeated invoice changes the carry again",
  "an all-negative invoice changes no carry",
  "a covered invoice without a user changes no carry",
  "a covered invoice without a full amount changes no carry",
  "an invoice without a user changes the carry at once",
  "an invoice that a session granted changes the carry",
  "lines missing: a total below 0 is left out",
  "lines missing: the shown lines are granted",
  "a carry of the operator is left out",
  "an erasure forgets the carry of the user's customers",
  "events that come at once do not see each other's carry",
  "an event that comes twice at once is granted twice",
] as const;
/** More such sentences of S3, S4 and S6. They move too little money for the properties, or none: the model finds them. */
export const OTHER_MISTAKES = [
  "the carry is not used up",
  "a share is rounded up",
  "a line is rounded before its share",
  "a proration line may exceed its quantity",
  "waiting invoices are granted newest first",
  "an invoice of a subscription is granted to nobody but its own user",
  "an invoice without a subscription is granted to the customer's user",
  "an invoice of no subscription does not wait",
  "lines missing: once settled, the shown lines count",
  "lines missing: once settled, the total counts with its tax",
  "a settlement changes no carry",
  "a settled covered invoice changes the carry again",
  "a refund gives its amount to the carry",
  "a dispute gives its amount to the carry",
  "a refund is a share of the total",
  "a refund is a share of what the card paid",
  "a refund is a share of the total less the carry without its tax",
  "a failed refund is not given back",
  "a withheld part is rounded to whole cents",
  "a dispute counts after it was won",
  "the last refund to arrive counts",
  "what is due is rounded up",
  "a coupon's line is granted by its share",
  "a coupon's line grants nothing",
  "a coupon pays twice in one period",
  "a trial grants its line's quantity",
  "a trial is granted again",
  "a trial is granted where the setting does not say so",
  "a trial is granted once a user alone",
  "a trial is granted once a customer alone",
  "a carry beyond Stripe's own balance is not told",
  "a line whose price has left the setting is not told",
  "refunds of an invoice's second payment are left out",
  "a refund is a share of its own charge",
  "an erasure forgets the trials of the user's customers",
  "an erased user is granted again",
  "an erased user stays the user of the customer",
  "credits of a period do not expire with it",
  "a proration line whose period is over is refused",
  "a line whose period is over is granted",
] as const;
export type Mistake = (typeof MONEY_MISTAKES)[number] | (typeof OTHER_MISTAKES)[number];

/** A balance that was granted. */
export interface Granted {
  readonly user: string;
  readonly ref: string;
  readonly unit: string;
  readonly initial: number;
  readonly bill: Bill;
  /** Null for what a session or the operator granted. */
  readonly line: BillLine | null;
  /** When it expires with a period. Null if its pack says when. */
  readonly expiresAtMs: number | null;
}

/** How Purser shows an invoice. */
export interface Shown {
  readonly status: "waiting" | "unmatched" | "granted" | "none";
  readonly reason: string | null;
  readonly bought: number;
  readonly returned: number;
  readonly carried: number;
}

interface Sale {
  readonly bill: Bill;
  isTold: boolean;
  /** The payment intents that are known to have paid it. */
  readonly tied: Set<string>;
  /** Whether an erasure removed the user whom it names. */
  isForgotten: boolean;
  isSessionTold: boolean;
  /** Whether it was granted, or changed the carry. */
  isDone: boolean;
  shown: Shown;
  readonly granted: Granted[];
  readonly returned: ReadonlyMap<PartPayment, Returned>;
}

/** The money of one charge that went back, as far as events told it. */
interface Returned {
  refunded: { readonly at: number; readonly amount: number };
  readonly failed: Map<string, { readonly at: number; readonly amount: number }>;
  withheld: { readonly at: number; readonly amount: Ratio };
}

const newReturned = (): Returned => ({
  ...{ refunded: { at: 0, amount: 0 }, failed: new Map(), withheld: { at: 0, amount: [0n, 1n] } },
});
const NOTHING: Shown = { status: "none", reason: null, bought: 0, returned: 0, carried: 0 };
const positive = (amount: number): number => Math.max(0, amount);
const big = BigInt;
const add = ([a, b]: Ratio, [c, d]: Ratio): Ratio => [a * d + c * b, b * d];
const least = ([a, b]: Ratio, [c, d]: Ratio): Ratio => (a * d < c * b ? [a, b] : [c, d]);

const copySale = (sale: Sale): Sale => ({
  ...sale,
  granted: [...sale.granted],
  tied: new Set(sale.tied),
  returned: new Map([...sale.returned].map(([part, found]) => [part, { ...found, failed: new Map(found.failed) }])),
});

/** The rule of S3, S4 and S6, from its text alone. A mistake, if any, changes one of its sentences. */
export class GrantingModel {
  readonly sales = new Map<string, Sale>();
  /** The amounts that the operator added to carries, for the sum of all money. */
  readonly set = new Map<string, number>();
  readonly #carries = new Map<string, number>();
  readonly #users = new Map<string, { readonly user: string; readonly at: number }>();
  readonly #grantedPrices = new Set<string>();
  readonly #alone = new Map<string, Ratio>();
  readonly #trials = new Set<string>();
  readonly #couponEnds = new Map<string, number>();
  /** The users who were erased. */
  readonly erased = new Set<string>();
  nowMs = 0;
  readonly #mistake: Mistake | null;
  readonly #version: string;
  readonly #taxPercent: number;
  readonly #allPrices: readonly SoldPrice[];
  #setting: GrantingSetting;

  constructor(
    setting: GrantingSetting,
    { version, taxPercent }: { readonly version: string; readonly taxPercent: number },
    mistake: Mistake | null = null,
  ) {
    this.#setting = setting;
    this.#allPrices = setting.prices;
    this.#version = version;
    this.#taxPercent = taxPercent;
    this.#mistake = mistake;
  }

  #has(mistake: Mistake): boolean {
    return this.#mistake === mistake;
  }

  // A rule is changed where it is applied, so that each mistake is one change.
  #if<Value>(mistake: Mistake, wrong: Value, right: Value): Value {
    return this.#has(mistake) ? wrong : right;
  }

  get #parts() {
    const maps = [this.set, this.#carries, this.#users, this.#alone, this.#couponEnds] as Map<string, unknown>[];
    return { maps, sets: [this.#grantedPrices, this.#trials, this.erased] };
  }

  /** Takes over the state of a model of the same rule. */
  become(other: GrantingModel): void {
    for (const [index, map] of this.#parts.maps.entries()) {
      const entries = [...(other.#parts.maps[index] ?? [])];
      map.clear();
      for (const [key, value] of entries) map.set(key, value);
    }
    for (const [index, each] of this.#parts.sets.entries()) {
      const values = [...(other.#parts.sets[index] ?? [])];
      each.clear();
      for (const value of values) each.add(value);
    }
    const sales = [...other.sales];
    this.sales.clear();
    for (const [id, sale] of sales) this.sales.set(id, copySale(sale));
    this.nowMs = other.nowMs;
    this.#setting = other.#setting;
  }

  copy(): GrantingModel {
    const about = { version: this.#version, taxPercent: this.#taxPercent };
    const copy = new GrantingModel({ ...this.#setting, prices: this.#allPrices }, about, this.#mistake);
    copy.become(this);
    return copy;
  }

  /** Takes events that come at once, each twice. They count as if they came one after another, in some order. */
  takeAtOnce(happenings: readonly Happening[]): void {
    const before = new Map(this.#carries);
    for (const happening of [...happenings, ...happenings]) {
      if (this.#has("events that come at once do not see each other's carry")) {
        for (const [key, carry] of before) this.#carries.set(key, carry);
      }
      if (this.#has("an event that comes twice at once is granted twice") && happening.what === "paid") {
        this.saleOf(happening.bill).isDone = false;
      }
      this.take(happening);
    }
  }

  /** Erases a user. The carries, the trials and the coupons of its customers stay. */
  erase(user: string): void {
    this.erased.add(user);
    const customers = [...this.#users].filter(([, linked]) => linked.user === user).map(([customer]) => customer);
    for (const customer of this.#has("an erased user stays the user of the customer") ? [] : customers) {
      this.#users.delete(customer);
    }
    const sales = [...this.sales.values()].filter(
      ({ bill }) => bill.user === user || customers.includes(bill.customer),
    );
    for (const sale of sales) {
      if (this.#has("an erasure forgets the carry of the user's customers")) this.#setCarry(sale.bill, 0);
      if (this.#has("an erasure forgets the trials of the user's customers")) {
        for (const { pack } of this.#allPrices) this.#trials.delete(`customer ${sale.bill.customer} ${pack.name}`);
      }
      if (sale.bill.user === user && sale.isTold) sale.isForgotten = true;
      if (sale.shown.status === "unmatched") sale.shown = { ...sale.shown, reason: "person_erased" };
    }
  }

  setPrices(prices: readonly SoldPrice[]): void {
    this.#setting = { ...this.#setting, prices };
  }

  #carryKey({ customer, currency }: Pick<Bill, "customer" | "currency">): string {
    if (this.#has("the carry is the user's")) return `${this.#users.get(customer)?.user ?? customer} ${currency}`;
    if (this.#has("the carry is shared by currencies")) return customer;
    if (this.#has("the carry is shared by customers")) return currency;
    return `${customer} ${currency}`;
  }

  carry(of: Pick<Bill, "customer" | "currency">): number {
    return this.#carries.get(this.#carryKey(of)) ?? 0;
  }

  #setCarry(of: Pick<Bill, "customer" | "currency">, amount: number): void {
    this.#carries.set(this.#carryKey(of), amount);
  }

  /** The operator sets a carry. */
  operatorSets(of: Pick<Bill, "customer" | "currency">, amount: number): void {
    if (this.#has("a carry of the operator is left out")) return;
    const key = `${of.customer} ${of.currency}`;
    this.set.set(key, (this.set.get(key) ?? 0) + amount - this.carry(of));
    this.#setCarry(of, amount);
  }

  get granted(): Granted[] {
    return [...this.sales.values()].flatMap(({ granted }) => granted);
  }

  /** The minor units of the first item of the pack that a line buys. */
  minorOf({ price }: BillLine): number {
    return this.#allPrices.find((each) => each.price === price)?.pack.items[0]?.minor ?? 0;
  }

  isWhollyRefunded(bill: Bill): boolean {
    return (
      bill.parts.length > 0 && bill.parts.every((part) => this.#isTied(bill, part) && this.#isRefunded(bill, part))
    );
  }

  #isTied(bill: Bill, { intent }: PartPayment): boolean {
    return this.saleOf(bill).tied.has(intent);
  }

  #isRefunded(bill: Bill, part: PartPayment): boolean {
    return this.#refundedOf(this.#returnedOf(bill, part)) >= part.cash;
  }

  #returnedOf(bill: Bill, part: PartPayment): Returned {
    const found = this.saleOf(bill).returned.get(part);
    if (found === undefined) throw new Error("A charge is not of its invoice.");
    return found;
  }

  #refundedOf({ refunded, failed }: Returned): number {
    const lost = [...failed.values()].filter(({ at }) => at > refunded.at);
    return positive(refunded.amount - lost.reduce((sum, { amount }) => sum + amount, 0));
  }

  saleOf(bill: Bill): Sale {
    const sale: Sale = this.sales.get(bill.id) ?? {
      ...{ bill, isTold: false, isForgotten: false, isSessionTold: false, isDone: false, shown: NOTHING },
      ...{ granted: [], tied: new Set() },
      returned: new Map(bill.parts.map((part) => [part, newReturned()])),
    };
    this.sales.set(bill.id, sale);
    return sale;
  }

  take(happening: Happening): void {
    this.nowMs = Math.max(this.nowMs, happening.at * 1_000);
    if (happening.what === "linked") {
      const { customer, user, at } = happening;
      if (!this.#isErased(user) && (this.#users.get(customer)?.at ?? -1) < at) this.#users.set(customer, { user, at });
      const unmatched = [...this.sales.values()].filter(
        ({ bill, shown }) => bill.customer === customer && shown.reason === "no_user",
      );
      const inOrder = unmatched.toSorted((a, b) => a.bill.created - b.bill.created);
      for (const sale of this.#if("waiting invoices are granted newest first", inOrder.toReversed(), inOrder))
        this.#try(sale);
      return;
    }
    const sale = this.saleOf(happening.bill);
    const { bill } = sale;
    const [first] = bill.parts;
    switch (happening.what) {
      case "session":
        if (first !== undefined) sale.tied.add(first.intent);
        sale.isSessionTold = true;
        this.#grantSession(sale);
        return;
      case "paid":
        if (sale.isTold && this.#has("a repeated invoice changes the carry again")) this.#account(sale);
        sale.isTold = true;
        if (this.#version === BEFORE && first !== undefined) sale.tied.add(first.intent);
        this.#try(sale);
        return;
      case "tied":
        sale.tied.add(happening.part.intent);
        this.#try(sale);
        return;
      default:
        this.#takeBack(happening, this.#returnedOf(bill, happening.part));
    }
  }

  /** Takes an event about money that went back, or did not. */
  #takeBack(happening: Extract<Happening, { what: "refunded" | "refundFailed" | "disputed" }>, found: Returned): void {
    const { bill, at } = happening;
    if (happening.what === "refunded") {
      const isNewer = at > found.refunded.at || this.#has("the last refund to arrive counts");
      if (isNewer) found.refunded = { at, amount: happening.refunded };
      if (this.#has("a refund gives its amount to the carry")) {
        this.#setCarry(bill, this.carry(bill) + happening.refunded);
      }
    } else if (happening.what === "refundFailed") {
      if (this.#has("a failed refund is not given back")) return;
      found.failed.set(happening.refund, { at, amount: happening.amount });
    } else {
      const { withheld: amount } = happening;
      if (this.#has("a dispute gives its amount to the carry")) {
        this.#setCarry(bill, this.carry(bill) + Number(amount[0] / amount[1]));
      }
      if (this.#has("a dispute counts after it was won") && amount[0] === 0n) return;
      const rounded: Ratio = [(amount[0] + amount[1] - 1n) / amount[1], 1n];
      if (at <= found.withheld.at) return;
      found.withheld = { at, amount: this.#if("a withheld part is rounded to whole cents", rounded, amount) };
    }
  }

  #grantSession(sale: Sale): void {
    const { bill } = sale;
    if (sale.isDone || bill.sold === null) return;
    const { pack: name, user } = bill.sold;
    if (this.#isErased(user)) throw new Error("The histories sell nothing to an erased user.");
    const pack = this.#setting.prices.find((each) => each.pack.name === name)?.pack;
    if (pack === undefined) throw new Error(`No price sells ${name}.`);
    sale.isDone = true;
    sale.shown = { ...NOTHING, status: "granted" };
    this.#grant(sale, user, `stripe:${bill.parts[0]?.intent}`, null, pack, () => [1n, 1n]);
    if (this.#has("an invoice that a session granted changes the carry")) this.#account(sale);
  }

  #isErased(user: string): boolean {
    return this.erased.has(user) && !this.#has("an erased user is granted again");
  }

  #soldAs(line: BillLine): SoldPrice | undefined {
    return this.#setting.prices.find(({ price }) => price === line.price);
  }

  #counts(bill: Bill, line: BillLine): boolean {
    if (line.quantity === 0 && !this.#has("lines of quantity 0 count")) return false;
    if (this.#has("lines of other products count") || this.#soldAs(line) !== undefined) return true;
    if (this.#has("lines of a price that left the setting no longer count")) return false;
    return this.#hasLeft(bill, line);
  }

  /** Whether a price has left the setting after a line of it was granted to the customer. */
  #hasLeft(bill: Bill, line: BillLine): boolean {
    return this.#soldAs(line) === undefined && this.#grantedPrices.has(`${bill.customer} ${line.price}`);
  }

  /** Bought and returned of an invoice. */
  sumsOf(bill: Bill): { readonly bought: number; readonly returned: number } {
    const withTax = 1 + this.#if("amounts are with tax", this.#taxPercent, 0) / 100;
    if (bill.hasMore && !this.#has("lines missing: once settled, the shown lines count")) {
      const isTaxed = this.#has("lines missing: once settled, the total counts with its tax");
      const total = bill.total - (isTaxed ? 0 : bill.tax);
      return { bought: positive(total), returned: positive(-total) };
    }
    const lines = bill.lines.filter((line) => this.#counts(bill, line));
    const amountOf = (line: BillLine): number => {
      if (line.amount > 0 && this.#has("bought counts amounts before discounts")) return line.amount;
      if (line.amount < 0 && this.#has("returned counts amounts before discounts")) return line.amount;
      return Math.round(netOf(line) * withTax);
    };
    const amounts = lines.map(amountOf);
    const negative = amounts.filter((amount) => amount < 0);
    const counted = this.#if(
      "nothing is returned",
      [],
      this.#if("only the first negative line is returned", negative.slice(0, 1), negative),
    );
    return {
      bought: amounts.reduce((sum, amount) => sum + positive(amount), 0),
      returned: 0 - counted.reduce((sum, amount) => sum + amount, 0),
    };
  }

  /** Returns the amount that an invoice's money pays for, and the amount that the carry takes. */
  #paidFor(bill: Bill): { readonly paidFor: number; readonly carried: number } {
    const { bought, returned } = this.sumsOf(bill);
    const carry = this.#if("the carry is not subtracted", 0, this.carry(bill));
    const paidFor = positive(bought - returned - carry);
    return { paidFor, carried: positive(bought - returned) - paidFor };
  }

  /** Changes the carry. Returns the share of each line above 0. */
  #account(sale: Sale): Ratio {
    const { bill } = sale;
    const { bought, returned } = this.sumsOf(bill);
    const { paidFor, carried } = this.#paidFor(bill);
    const before = this.carry(bill);
    const after = before + returned - bought;
    const kept = this.#if(
      "the carry grows by nothing",
      Math.min(before, positive(after)),
      this.#if("the carry may fall below 0", after, positive(after)),
    );
    const used = this.#if("the carry is not used up", Math.max(before, kept), kept);
    this.#setCarry(bill, this.#if("the carry forgets what it was", positive(returned - bought), used));
    sale.shown = { ...sale.shown, bought, returned, carried };
    if (this.#has("each line is granted whole")) return [1n, 1n];
    if (this.#has("the share is rounded to whole percents")) {
      return bought === 0 ? [0n, 1n] : [(big(paidFor) * 100n) / big(bought), 100n];
    }
    const of = bought + this.#if("the share is of paid for and returned", returned, 0);
    return of === 0 ? [0n, 1n] : [big(paidFor), big(of)];
  }

  /** Judges an invoice that may be granted now. */
  #try(sale: Sale): void {
    const { bill } = sale;
    if (sale.isDone || !sale.isTold) return;
    const unmatched = (reason: string): void => {
      sale.shown = { ...NOTHING, status: "unmatched", reason };
    };
    const isWaiting = bill.subscription === null && bill.cash > 0 && sale.tied.size === 0;
    if (isWaiting && !this.#has("an invoice of no subscription does not wait")) {
      const isErased = sale.shown.reason === "person_erased" || (bill.user !== null && this.#isErased(bill.user));
      if (!bill.lines.some((line) => this.#counts(bill, line))) return;
      if (isErased && !sale.isForgotten) unmatched("person_erased");
      else sale.shown = { ...NOTHING, status: "waiting" };
      return;
    }
    if (bill.hasMore && !this.#has("lines missing: the shown lines are granted")) {
      const user = this.#userOf(sale);
      const isErased = user === null ? sale.shown.reason === "person_erased" : this.#isErased(user);
      const reason = isErased ? "person_erased" : user === null ? "no_user" : "lines_missing";
      if (bill.total - bill.tax >= 0) unmatched(reason);
      else if (!this.#has("lines missing: a total below 0 is left out")) this.#cover(sale);
      return;
    }
    const counted = bill.lines.filter((line) => this.#counts(bill, line));
    const isSet = counted.some((line) => this.#soldAs(line) !== undefined || netOf(line) !== 0);
    if (!isSet) return;
    const { bought, returned } = this.sumsOf(bill);
    const { paidFor } = this.#paidFor(bill);
    const positives = counted.filter((line) => netOf(line) > 0 && this.#soldAs(line) !== undefined);
    const free = counted.filter((line) => this.#isCoupon(line) || this.#mayBeTrial(line));
    const user = this.#userOf(sale);
    const isUnknown = positives.some((line) => line.isProration && this.#fullOf(bill, line) === null);
    if (paidFor === 0 && bought + returned > 0 && free.length === 0) {
      const isLeftOut =
        (bought === 0 && this.#has("an all-negative invoice changes no carry")) ||
        (bought > 0 && user === null && this.#has("a covered invoice without a user changes no carry")) ||
        (isUnknown && this.#has("a covered invoice without a full amount changes no carry"));
      if (!isLeftOut) this.#cover(sale);
      return;
    }
    const isTold = !this.#has("a line whose price has left the setting is not told");
    const hasUnset = paidFor > 0 && isTold && counted.some((line) => netOf(line) > 0 && this.#hasLeft(bill, line));
    if (positives.length + free.length === 0 && !hasUnset) {
      if (bought + returned > 0) this.#cover(sale, null);
      return;
    }
    if (user !== null && this.#isErased(user)) {
      unmatched("person_erased");
      return;
    }
    if (user === null) {
      unmatched(sale.shown.reason === "person_erased" ? "person_erased" : "no_user");
      if (this.#has("an invoice without a user changes the carry at once")) this.#account(sale);
      return;
    }
    const granted = free.filter((line) => this.#isFree(bill, line, user));
    const isOver = counted.some(
      (line) =>
        (granted.includes(line) || (netOf(line) > 0 && paidFor > 0 && this.#soldAs(line) !== undefined)) &&
        !(line.isProration && this.#fullOf(bill, line) === null) &&
        this.#expiryOf(bill, line) === "over",
    );
    if (isOver) {
      unmatched("period_over");
      return;
    }
    if (hasUnset) {
      unmatched("no_pack");
      return;
    }
    // A line for which the carry leaves no money needs no full amount.
    if (isUnknown && paidFor > 0 && !this.#has("an unknown full amount grants the whole")) {
      unmatched("proration");
      if (this.#has("an unknown full amount changes the carry")) this.#account(sale);
      return;
    }
    if (bought + returned === 0 && granted.length === 0) {
      sale.shown = NOTHING;
      return;
    }
    sale.isDone = true;
    const share = this.#account(sale);
    const tells = this.#tellsCarry(sale);
    sale.shown = { ...sale.shown, status: "granted", reason: tells ? "carry" : null };
    for (const line of counted) {
      const sold = this.#soldAs(line);
      if (sold === undefined) continue;
      const isNew = this.#isFree(bill, line, user);
      const isTrial = line.amount === 0;
      const ref = isTrial ? `stripe:trial:${sold.pack.name}` : `stripe:${bill.id}:${line.id}`;
      if (netOf(line) > 0) this.#grant(sale, user, ref, line, sold.pack, this.#timesOf(bill, line, share));
      else if (granted.includes(line) && isNew) this.#grantFree(sale, user, ref, line, sold, share);
    }
    for (const { line } of sale.granted) {
      if (line === null) continue;
      this.#grantedPrices.add(`${bill.customer} ${line.price}`);
      if (!this.#isCoupon(line)) continue;
      const end = this.#couponEnds.get(bill.customer) ?? 0;
      this.#couponEnds.set(bill.customer, Math.max(end, line.end));
    }
  }

  /** An invoice that grants nothing changes the carry when it comes. */
  #cover(sale: Sale, reason: "covered_by_credit" | null = "covered_by_credit"): void {
    sale.isDone = true;
    this.#account(sale);
    const tells = this.#tellsCarry(sale);
    const shown = tells
      ? ({ status: "unmatched", reason: "carry" } as const)
      : ({ status: "granted", reason } as const);
    sale.shown = { ...sale.shown, ...shown };
  }

  /** Whether the carry took more than Stripe's own balance paid. */
  #tellsCarry({ bill, shown }: Sale): boolean {
    if (this.#has("a carry beyond Stripe's own balance is not told")) return false;
    return shown.carried > 0 && (bill.total - bill.cash) * 100 < shown.carried * (100 + this.#taxPercent);
  }

  #userOf({ bill, isForgotten }: Sale): string | null {
    const own = isForgotten ? null : bill.user;
    const known = this.#users.get(bill.customer)?.user ?? null;
    const isOwnOnly = this.#has("an invoice of a subscription is granted to nobody but its own user");
    if (bill.subscription !== null) return own ?? (isOwnOnly ? null : known);
    return own ?? this.#if("an invoice without a subscription is granted to the customer's user", known, null);
  }

  /** When a line's credits expire, "over" if that is past, or null if its pack says when. */
  #expiryOf({ lines }: Bill, line: BillLine): number | "over" | null {
    if (this.#soldAs(line)?.isPeriod !== true || line.end <= line.start) return null;
    if (this.#has("credits of a period do not expire with it")) return null;
    const end = line.end * 1_000;
    if (end > this.nowMs) return end;
    const latest = Math.max(...lines.map((each) => each.end)) * 1_000;
    const isElse = line.isProration && !this.#has("a proration line whose period is over is refused");
    if (isElse && latest > this.nowMs) return latest;
    return this.#has("a line whose period is over is granted") ? null : "over";
  }

  #isCoupon(line: BillLine): boolean {
    return !line.isProration && line.amount > 0 && netOf(line) === 0 && this.#soldAs(line) !== undefined;
  }

  #mayBeTrial(line: BillLine): boolean {
    const isSet = this.#soldAs(line)?.trial === true;
    const isMeant = isSet || this.#has("a trial is granted where the setting does not say so");
    return !line.isProration && line.amount === 0 && this.#soldAs(line) !== undefined && isMeant;
  }

  /** Whether a line that costs nothing is granted. */
  #isFree(bill: Bill, line: BillLine, user: string): boolean {
    if (this.#isCoupon(line)) {
      if (this.#has("a coupon's line grants nothing")) return false;
      const isTwice = (this.#couponEnds.get(bill.customer) ?? 0) > line.start;
      return !isTwice || this.#has("a coupon pays twice in one period");
    }
    if (!this.#mayBeTrial(line)) return false;
    const pack = this.#soldAs(line)?.pack.name;
    const isOfUser = this.#trials.has(`user ${user} ${pack}`) && !this.#has("a trial is granted once a customer alone");
    const isOfCustomer =
      this.#trials.has(`customer ${bill.customer} ${pack}`) && !this.#has("a trial is granted once a user alone");
    return this.#has("a trial is granted again") || !(isOfUser || isOfCustomer);
  }

  #grantFree(sale: Sale, user: string, ref: string, line: BillLine, { pack }: SoldPrice, share: Ratio): void {
    const { customer } = sale.bill;
    const whole: Ratio = [big(line.quantity), 1n];
    if (this.#isCoupon(line)) {
      const part: Ratio = [whole[0] * share[0], share[1]];
      const times = this.#if("a coupon's line is granted by its share", part, whole);
      this.#grant(sale, user, ref, line, pack, () => times);
      return;
    }
    this.#trials.add(`user ${user} ${pack.name}`);
    this.#trials.add(`customer ${customer} ${pack.name}`);
    this.#grant(sale, user, ref, line, pack, () => this.#if("a trial grants its line's quantity", whole, [1n, 1n]));
  }

  /** The full amount of one unit of a proration line. */
  #fullOf({ lines, currency }: Bill, line: BillLine): Ratio | null {
    const isSetCurrency = currency === this.#setting.currency;
    const isSet = isSetCurrency || this.#has("the setting's amount counts in every currency");
    const amount = isSet ? this.#soldAs(line)?.amount : undefined;
    const told: Ratio | null = line.told === null ? null : [big(line.told), 1n];
    const set: Ratio | null =
      amount === undefined || this.#has("the setting's amount does not count") ? null : [big(amount), 1n];
    const other = lines.find((each) => each.price === line.price && !each.isProration && each.amount > 0);
    const isWithout = this.#has("a full line of the invoice counts without its quantity");
    const isAfter = this.#has("a full line of the invoice counts after discounts");
    const full: Ratio | null =
      other === undefined || this.#has("a full line of the invoice is not asked")
        ? null
        : [big(isAfter ? netOf(other) : other.amount), isWithout ? 1n : big(other.quantity)];
    const first = (...sources: (Ratio | null)[]): Ratio | null =>
      sources.find((source) => source !== null && source[0] > 0n) ?? null;
    if (this.#has("the setting's amount goes before the line's own")) return first(set, told, full);
    if (this.#has("a full line of the invoice goes before the setting's amount")) return first(told, full, set);
    return first(told, set, full);
  }

  /** How often a line alone grants its pack, by the setting when it was granted. */
  aloneOf(bill: Bill, line: BillLine): Ratio {
    return this.#alone.get(line.id) ?? this.#aloneNow(bill, line);
  }

  #aloneNow(bill: Bill, line: BillLine): Ratio {
    const quantity: Ratio = [big(line.quantity), 1n];
    if (!line.isProration) {
      const byNet: Ratio = [big(netOf(line)) * quantity[0], big(line.amount)];
      return this.#if("a full line is granted by its net amount", byNet, quantity);
    }
    const full = this.#fullOf(bill, line);
    if (full === null || this.#has("a proration line is granted whole")) return quantity;
    const amount = this.#if("a proration line counts its amount before discounts", line.amount, netOf(line));
    const part: Ratio = [big(amount) * full[1], full[0]];
    return this.#has("a proration line may exceed its quantity") ? part : least(part, quantity);
  }

  /** How often a line grants an item of its pack. */
  #timesOf(bill: Bill, line: BillLine, [part, of]: Ratio): (minor: number) => Ratio {
    const alone = this.#aloneNow(bill, line);
    this.#alone.set(line.id, alone);
    return (minor) => {
      if (!this.#has("a line is rounded before its share")) return [alone[0] * part, alone[1] * of];
      return [((big(minor) * alone[0]) / alone[1]) * part, big(minor) * of];
    };
  }

  #grant(
    sale: Sale,
    user: string,
    ref: string,
    line: BillLine | null,
    pack: SoldPack,
    timesOf: (minor: number) => Ratio,
  ): void {
    for (const { unit, minor } of pack.items) {
      const [part, of] = timesOf(minor);
      const up = this.#if("a share is rounded up", of - 1n, 0n);
      const initial = Number((big(minor) * part + up) / of);
      const expiry = line === null ? null : this.#expiryOf(sale.bill, line);
      const expiresAtMs = expiry === "over" ? null : expiry;
      if (initial > 0) sale.granted.push({ user, ref, unit, initial, bill: sale.bill, line, expiresAtMs });
    }
  }

  /** The operator grants a payment by hand. Returns whether there was something to settle. */
  settle(bill: Bill, user: string, pack: SoldPack, times: number): boolean {
    const sale = this.saleOf(bill);
    if (!this.canSettle(bill)) return false;
    if (!sale.isDone && !this.#has("a settlement changes no carry")) this.#account(sale);
    else if (sale.isDone && this.#has("a settled covered invoice changes the carry again")) this.#account(sale);
    sale.isDone = true;
    const reason = this.#tellsCarry(sale) ? "carry" : null;
    sale.shown = { ...sale.shown, status: "granted", reason };
    const [key = bill.id] = [...sale.tied].toSorted();
    this.#grant(sale, user, `stripe:${key}`, null, pack, () => [big(times), 1n]);
    return true;
  }

  canSettle(bill: Bill): boolean {
    const { shown, granted } = this.saleOf(bill);
    if (granted.length > 0) return false;
    return shown.status === "unmatched" || shown.reason === "covered_by_credit";
  }

  /** The part of a payment that is due back. */
  shareOf(bill: Bill): Ratio {
    const { shown } = this.saleOf(bill);
    const isFirstOnly = this.#has("refunds of an invoice's second payment are left out");
    const parts = bill.parts.filter((part, index) => this.#isTied(bill, part) && !(isFirstOnly && index > 0));
    if (parts.length === 0) return [0n, 1n];
    const taken = parts.map((part): Ratio => {
      const found = this.#returnedOf(bill, part);
      const back = add([big(this.#refundedOf(found)), 1n], found.withheld.amount);
      return least(back, [big(part.cash), 1n]);
    });
    if (this.#has("a refund is a share of its own charge")) {
      const shares = taken.map(([of, by], index): Ratio => [of, by * big(parts[index]?.cash ?? 1)]);
      return least(shares.reduce(add, [0n, 1n]), [1n, 1n]);
    }
    const [back, of] = taken.reduce(add, [0n, 1n]);
    const cash = parts.reduce((sum, part) => sum + part.cash, 0);
    const tax = this.#if("a refund is a share of the total less the carry without its tax", 0, this.#taxPercent);
    const hundred = this.#if("a refund is a share of the total", 0, shown.carried) * (100 + tax);
    const worth = this.#if("a refund is a share of what the card paid", 0, bill.total * 100 - hundred);
    // In hundredths.
    return [back * 100n, of * big(Math.max(cash * 100, worth))];
  }

  /** Returns the minor units that a balance must give back. */
  dueOf({ bill, initial }: Granted): number {
    const [part, of] = this.shareOf(bill);
    const up = this.#if("what is due is rounded up", of - 1n, 0n);
    return Number((big(initial) * part + up) / of);
  }
}
