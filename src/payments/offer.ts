import {
  type Fraction,
  fraction,
  fromSteps,
  leastOf,
  multiplyFractions,
  ONE,
  toSteps,
  type Unit,
} from "../books/amounts/amount.ts";
import { USER_BALANCES_MAX } from "../books/credits/grant.ts";
import { type NewBalances, planGrant } from "../books/ledger/new-balances.ts";
import type { Pack } from "../catalog/pack.ts";
import type { Steps } from "../db/schema.ts";
import { PurserError } from "../errors.ts";
import { accountInvoice, type InvoiceAccount, type Payer, type PayerMarks } from "./carry.ts";
import { type Fact, factsOf, type IntentFact, type InvoiceFact, type InvoiceLine, type SessionFact } from "./facts.ts";
import type { Reason } from "./reasons.ts";
import type { PriceSetting, StripeSetting } from "./stripe-setting.ts";

/** A grant that a payment would make, with its user. */
export interface Offer {
  readonly userId: string | null;
  /** The bought parts, in the order of the invoice's lines. */
  readonly parts: readonly OfferPart[];
  /** How its invoice settles with the carry. Null for a session or an intent. */
  readonly account: InvoiceAccount | null;
  /** The reason why nothing can be granted, although the parts could be. */
  readonly flaw: "lines_missing" | "no_pack" | "proration" | null;
}

export interface OfferPart {
  /** The reference of its balances. For a trial, it depends on the pack. */
  readonly externalRef: string | null;
  /** The invoice line. Null for a session. */
  readonly line: InvoiceLine | null;
  readonly isTrial: boolean;
  /** Whether a granted line that a coupon paid lasts longer than this one begins. Then nothing is granted. */
  readonly isCouponOver: boolean;
  /** A pack's id or name. Null if no pack is named. */
  readonly pack: string | null;
  /** How many times the part alone would be granted. */
  readonly times: Fraction;
  /** The share of it that the money buys. */
  readonly share: Fraction;
  /** The quantity of a legacy pack; for a session, the number of packs with items. `amount` means the paid amount, in cents. */
  readonly quantity: { readonly units: string | number } | { readonly amount: SessionFact["data"] };
  /** When its balances expire. Undefined for the pack's default. */
  readonly expiresAtMs: number | undefined;
  /** When its balances expire if `expiresAtMs` is in the past. */
  readonly elseExpiresAtMs: number | undefined;
}

/** Returns the reference of a payment's grants. References from callers must not begin with `stripe:` (C21). */
export const refOf = (...parts: readonly string[]): string => ["stripe", ...parts].join(":");
/** The references of trials, of all packs. */
export const TRIAL_REFS = refOf("trial", "");
/** The text after all of them, in the order of the database. */
export const TRIAL_REFS_END = refOf("trial;");

const TIMES_MAX = 100n;
/** A quantity in a session's metadata. Longer numbers could be rounded. */
const DECIMAL = /^\d{1,13}(\.\d{1,6})?$/;
/** The number of packs with items. */
const TIMES = /^\d{1,3}$/;

export interface GrantTerms {
  readonly currency: string;
  readonly note: string;
  readonly nowMs: number;
  /** Returns the id of a new balance: the same in every attempt. */
  readonly newId: (index: number) => string;
  /** Returns the pack with an id or a name. */
  readonly packOf: (pack: string) => Pack | null;
  /** The packs of past trials: the user's, and the customer's. */
  readonly trials: ReadonlySet<string>;
}

type Setting = Pick<StripeSetting, "prices" | "currency">;

/** The terms of an invoice's customer. */
export interface PayerTerms {
  readonly customerUser: string | null;
  /** Null for an invoice without a customer. */
  readonly payer: Payer | null;
}

/** Returns the possible grants of a payment, from its sessions, invoices and intents, in this order. None for products that are not set up. */
export function offersOf(facts: readonly Fact[], setting: Setting, terms: PayerTerms): readonly Offer[] {
  return [
    ...factsOf(facts, "session").map(offerOfSession),
    ...factsOf(facts, "invoice").flatMap((invoice) => offerOfInvoice(invoice, setting, terms) ?? []),
    ...factsOf(facts, "intent").map(offerOfSession),
  ];
}

function offerOfSession({ userId, data }: SessionFact | IntentFact): Offer {
  const part = {
    externalRef: refOf(data.ref),
    ...{ line: null, isTrial: false, isCouponOver: false, pack: data.pack, times: ONE, share: ONE },
    quantity: data.quantity === null ? { amount: data } : { units: data.quantity },
    ...{ expiresAtMs: undefined, elseExpiresAtMs: undefined },
  };
  return { userId, parts: [part], account: null, flaw: null };
}

export const isSet = ({ prices }: Pick<Setting, "prices">, price: string): boolean =>
  prices.some((setPrice) => setPrice.price === price);
/** Whether a price has left the setting after a line of it was granted to the customer. */
const hasLeft = (setting: Pick<Setting, "prices">, price: string | null, payer: Payer | null): boolean =>
  price !== null && !isSet(setting, price) && payer?.prices.includes(price) === true;

/** Returns how an invoice would settle with the carry of its customer. */
export function accountOfInvoice(invoice: InvoiceFact, setting: Setting, payer: Payer | null): InvoiceAccount {
  const isCounted = (price: string) => isSet(setting, price) || hasLeft(setting, price, payer);
  return accountInvoice(invoice, isCounted, payer?.carries[invoice.data.currency] ?? 0);
}

/** Returns the grant of an invoice. Null for an invoice of another product. */
function offerOfInvoice(invoice: InvoiceFact, setting: Setting, { customerUser, payer }: PayerTerms): Offer | null {
  const { lines, hasMore, isSubscription, totalWithoutTax } = invoice.data;
  const userId = invoice.userId ?? (isSubscription ? customerUser : null);
  const account = accountOfInvoice(invoice, setting, payer);
  if (hasMore && setting.prices.length > 0) {
    return { userId, parts: [], account, flaw: totalWithoutTax < 0 ? null : "lines_missing" };
  }
  const parts: OfferPart[] = [];
  // The customer paid for a line that its setting no longer grants.
  const hasUnsetLine = lines.some((line) => line.net > 0 && line.quantity !== 0 && hasLeft(setting, line.price, payer));
  let flaw: Offer["flaw"] = hasUnsetLine && account.paidFor > 0n ? "no_pack" : null;
  for (const line of lines) {
    const price = setting.prices.find((candidate) => candidate.price === line.price);
    if (price === undefined || !grants(line, price)) continue;
    const isPaid = line.net > 0;
    const times = timesOfLine(invoice, line, price, setting.currency);
    // A line for which no money is left needs no full amount.
    if (isPaid && account.paidFor === 0n) continue;
    if (times === null) flaw ??= "proration";
    else parts.push(partOf(invoice, line, price, { times, share: isPaid ? account.share : ONE, payer }));
  }
  const { bought, returned } = account.fact.data;
  const hasSetPrice = parts.length > 0 || flaw !== null || returned > 0 || (bought > 0 && account.paidFor === 0n);
  return hasSetPrice ? { userId, parts, account, flaw } : null;
}

/** Returns whether the line grants something: it was paid for, or it is a trial, or its coupon paid for it. */
function grants({ net, amount, quantity, isProration }: InvoiceLine, { trial }: PriceSetting): boolean {
  if (net > 0) return quantity === null || quantity > 0;
  if (net < 0 || isProration || amount < 0) return false;
  return amount === 0 ? trial === true : quantity === null || quantity > 0;
}

/** Returns how many times a line alone buys the pack of its price. Null if the share of a proration line is unknown. */
function timesOfLine({ data }: InvoiceFact, line: InvoiceLine, price: PriceSetting, currency: string): Fraction | null {
  const { net, amount, quantity, isProration } = line;
  if (amount === 0) return ONE;
  const most = fraction(quantity ?? 1);
  if (!isProration) return most;
  const whole = wholeOf(data, line, price, currency);
  if (whole === null) return null;
  return leastOf(most, { numerator: BigInt(net) * whole.denominator, denominator: whole.numerator });
}

/** Returns the full amount of one unit of a price. */
function wholeOf(
  { lines, currency: invoiceCurrency }: InvoiceFact["data"],
  { price: ofPrice, unitAmount }: InvoiceLine,
  price: PriceSetting,
  currency: string,
): Fraction | null {
  if (unitAmount !== null && unitAmount > 0) return fraction(unitAmount);
  if (price.amount !== undefined && invoiceCurrency === currency) return fraction(price.amount);
  const whole = lines.find(
    (other) => other.price === ofPrice && !other.isProration && other.amount > 0 && (other.quantity ?? 1) > 0,
  );
  return whole === undefined ? null : fraction(whole.amount, whole.quantity ?? 1);
}

function partOf(
  { id, data }: InvoiceFact,
  line: InvoiceLine,
  price: PriceSetting,
  { payer, ...amounts }: Pick<OfferPart, "times" | "share"> & Pick<PayerTerms, "payer">,
): OfferPart {
  const isTrial = line.amount === 0;
  const isCoupon = line.net === 0 && !isTrial;
  const hasPeriod = price.expires === "period" && line.end > line.start;
  const latest = Math.max(...data.lines.map(({ end }) => end));
  return {
    externalRef: isTrial ? null : refOf(id, line.id),
    ...{ line, isTrial, pack: price.packId, quantity: { units: price.quantity ?? "" }, ...amounts },
    isCouponOver: isCoupon && payer !== null && payer.couponUntil > line.start,
    expiresAtMs: hasPeriod ? line.end * 1_000 : undefined,
    elseExpiresAtMs: hasPeriod && line.isProration ? latest * 1_000 : undefined,
  };
}

/** The grants of an offer, without those that come to less than a step. */
export interface PlannedOffer {
  readonly grants: readonly NewBalances[];
  readonly account: InvoiceAccount | null;
  readonly marks: PayerMarks;
}

export const NO_MARKS: PayerMarks = { prices: [], trials: [], couponUntil: 0 };

/** Whether the carry covers an invoice, or all its lines are negative. Then it grants nothing, whoever its user is. */
export const isCovered = ({ parts, account, flaw }: Offer): boolean =>
  parts.length === 0 && flaw === null && account !== null && account.paidFor === 0n;

/** Why an invoice that only has lines without a price grants nothing. */
export type FreeOver = "trial_over" | "coupon_over";

/** Returns the grants of an offer, or the reason why there are none. */
export function planOffer(offer: Offer, terms: GrantTerms): PlannedOffer | Reason | FreeOver {
  const { userId, account } = offer;
  if (isCovered(offer)) return { grants: [], account, marks: NO_MARKS };
  if (userId === null) return "no_user";
  const trials = new Set(terms.trials);
  const planned: { readonly part: OfferPart; readonly grant: NewBalances }[] = [];
  let over: FreeOver | null = null;
  let count = 0;
  for (const part of offer.parts) {
    const pack = part.pack === null ? null : terms.packOf(part.pack);
    if (pack === null || pack.archivedAtMs !== null) return "no_pack";
    if (part.isCouponOver || (part.isTrial && trials.has(pack.id))) {
      over = part.isTrial ? "trial_over" : "coupon_over";
      continue;
    }
    const grant = planPart(part, pack, { ...terms, userId });
    if (typeof grant === "string") return grant;
    // Only balances that are made get an id.
    const balances = grant.balances.map((balance) => ({ ...balance, id: terms.newId(count++) }));
    if (balances.length === 0) continue;
    if (count > USER_BALANCES_MAX) return "quota";
    if (part.isTrial) trials.add(pack.id);
    planned.push({ part, grant: { ...grant, balances } });
  }
  if (offer.flaw !== null) return offer.flaw;
  const { bought = 0, returned = 0 } = account?.fact.data ?? {};
  if (planned.length === 0 && over !== null && bought === 0 && returned === 0) return over;
  return { grants: planned.map(({ grant }) => grant), account, marks: marksOfGrants(planned) };
}

function marksOfGrants(planned: readonly { readonly part: OfferPart; readonly grant: NewBalances }[]): PayerMarks {
  const coupons = planned.flatMap(({ part: { line, isTrial } }) => (line?.net === 0 && !isTrial ? [line.end] : []));
  return {
    prices: planned.flatMap(({ part }) => part.line?.price ?? []),
    trials: planned.flatMap(({ part, grant }) => (part.isTrial ? [grant.packId] : [])),
    couponUntil: Math.max(0, ...coupons),
  };
}

function planPart(part: OfferPart, pack: Pack, terms: GrantTerms & { readonly userId: string }): NewBalances | Reason {
  const { userId, nowMs } = terms;
  const times = pack.unit === null ? timesOfItems(part) : part.times;
  if (times === null) return "quantity";
  const quantity = pack.unit === null ? null : unitsOfPart(part, pack.unit, terms.currency);
  if (typeof quantity === "string") return quantity;
  const hasExpired = part.expiresAtMs !== undefined && part.expiresAtMs <= nowMs;
  const expiresAt = hasExpired ? (part.elseExpiresAtMs ?? part.expiresAtMs) : part.expiresAtMs;
  const common = {
    userId,
    packId: pack.id,
    externalRef: part.externalRef ?? `${TRIAL_REFS}${pack.id}`,
    notes: terms.note,
    source: "purchase" as const,
    cause: "payment" as const,
  };
  try {
    const planned = planGrant({ ...common, quantity, expiresAt }, pack, nowMs, () => "");
    // A session says the amount of a legacy pack, and buys it once.
    return multiplyGrant(planned, multiplyFractions(times, part.share)) ?? "quantity";
  } catch (error) {
    if (!(error instanceof PurserError)) throw error;
    return error.code === "invalid_quantity" ? "quantity" : "period_over";
  }
}

/** Returns how many times a part buys a pack with items. Null if it is not 1 to 100 times. */
function timesOfItems({ times, quantity, line }: OfferPart): Fraction | null {
  if (line !== null || "amount" in quantity) return times.numerator > TIMES_MAX * times.denominator ? null : times;
  return timesOfText(quantity.units);
}

/** Returns how many times a quantity buys a pack with items: 1 to 100 times; otherwise null. */
export function timesOfText(quantity: string | number): Fraction | null {
  if (!TIMES.test(String(quantity))) return null;
  const times = BigInt(quantity);
  return times >= 1n && times <= TIMES_MAX ? fraction(times) : null;
}

/** Returns the quantity of one unit of a legacy pack. */
export function unitsOfPart({ quantity }: Pick<OfferPart, "quantity">, unit: Unit, currency: string): number | Reason {
  if ("amount" in quantity) {
    if (unit !== "cents") return "quantity";
    return quantity.amount.currency === currency ? (quantity.amount.goods ?? 0) : "currency";
  }
  const { units } = quantity;
  return typeof units === "string" && !DECIMAL.test(units) ? "quantity" : Number(units);
}

/**
 * Returns a grant's balances multiplied by a factor, each rounded down to a step, without those of less than a step. Null if one
 * exceeds its unit's maximum.
 */
export function multiplyGrant(grant: NewBalances, { numerator, denominator }: Fraction): NewBalances | null {
  const balances = grant.balances.map((balance) => {
    const steps = Number((BigInt(balance.amountSteps) * numerator) / denominator) as Steps;
    return { ...balance, amountSteps: toSteps(balance.unit, fromSteps(balance.unit, steps)) };
  });
  const isExact = (balance: (typeof balances)[number]): balance is typeof balance & { amountSteps: Steps } =>
    balance.amountSteps !== null;
  if (!balances.every(isExact)) return null;
  return { ...grant, balances: balances.filter(({ amountSteps }) => amountSteps > 0) };
}
