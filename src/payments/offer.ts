import { type Fraction, fraction, leastOf, ONE } from "../books/amounts/fraction.ts";
import { accountInvoice, type InvoiceAccount, type Payer } from "./carry.ts";
import {
  type Fact,
  filterFacts,
  type IntentFact,
  type InvoiceFact,
  type InvoiceLine,
  type SessionFact,
} from "./facts.ts";
import type { PriceSetting, StripeSetting } from "./stripe-setting.ts";

/** A grant that a payment would make, with its user. */
export interface Offer {
  readonly userId: string | null;
  /** The bought parts, in the order of the invoice's lines. */
  readonly parts: readonly OfferPart[];
  /** How its invoice settles with the carry. Null for a session or an intent. */
  readonly account: InvoiceAccount | null;
  /** The reason why nothing can be granted, although the parts could be. */
  readonly rejectionReason: "lines_missing" | "no_pack" | "proration" | null;
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
  /** The quantity of an open-amount pack; for a session, the number of packs with items. `amount` means the paid amount, in cents. */
  readonly quantity: { readonly units: string | number } | { readonly amount: SessionFact["data"] };
  /** When its balances expire. Undefined for the pack's default. */
  readonly expiresAtMs: number | undefined;
  /** When its balances expire if `expiresAtMs` is in the past. */
  readonly elseExpiresAtMs: number | undefined;
}

/** Returns the reference of a payment's grants. References from callers must not begin with `stripe:` (C21). */
export const makeReference = (...parts: readonly string[]): string => ["stripe", ...parts].join(":");
/** The references of trials, of all packs. */
export const TRIAL_REFS = makeReference("trial", "");
/** The text after all of them, in the order of the database. */
export const TRIAL_REFS_END = makeReference("trial;");

type Setting = Pick<StripeSetting, "prices" | "currency">;

/** The terms of an invoice's customer. */
export interface PayerTerms {
  readonly customerUser: string | null;
  /** Null for an invoice without a customer. */
  readonly payer: Payer | null;
}

/** Returns the possible grants of a payment, from its sessions, invoices and intents, in this order. None for products that are not set up. */
export function readOffers(facts: readonly Fact[], setting: Setting, terms: PayerTerms): readonly Offer[] {
  return [
    ...filterFacts(facts, "session").map(offerOfSession),
    ...filterFacts(facts, "invoice").flatMap((invoice) => offerOfInvoice(invoice, setting, terms) ?? []),
    ...filterFacts(facts, "intent").map(offerOfSession),
  ];
}

function offerOfSession({ userId, data }: SessionFact | IntentFact): Offer {
  const part = {
    externalRef: makeReference(data.ref),
    ...{ line: null, isTrial: false, isCouponOver: false, pack: data.pack, times: ONE, share: ONE },
    quantity: data.quantity === null ? { amount: data } : { units: data.quantity },
    ...{ expiresAtMs: undefined, elseExpiresAtMs: undefined },
  };
  return { userId, parts: [part], account: null, rejectionReason: null };
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
    return { userId, parts: [], account, rejectionReason: totalWithoutTax < 0 ? null : "lines_missing" };
  }
  const parts: OfferPart[] = [];
  // The customer paid for a line that its setting no longer grants.
  const hasUnsetLine = lines.some((line) => line.net > 0 && line.quantity !== 0 && hasLeft(setting, line.price, payer));
  let rejectionReason: Offer["rejectionReason"] = hasUnsetLine && account.paidFor > 0n ? "no_pack" : null;
  for (const line of lines) {
    const price = setting.prices.find((candidate) => candidate.price === line.price);
    if (price === undefined || !grants(line, price)) continue;
    const isPaid = line.net > 0;
    const times = timesOfLine(invoice, line, price, setting.currency);
    // A line for which no money is left needs no full amount.
    if (isPaid && account.paidFor === 0n) continue;
    if (times === null) rejectionReason ??= "proration";
    else parts.push(makePart(invoice, line, price, { times, share: isPaid ? account.share : ONE, payer }));
  }
  const { bought, returned } = account.fact.data;
  const hasSetPrice =
    parts.length > 0 || rejectionReason !== null || returned > 0 || (bought > 0 && account.paidFor === 0n);
  return hasSetPrice ? { userId, parts, account, rejectionReason } : null;
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
  const whole = findFullAmount(data, line, price, currency);
  if (whole === null) return null;
  return leastOf(most, { numerator: BigInt(net) * whole.denominator, denominator: whole.numerator });
}

/** Returns the full amount of one unit of a price. */
function findFullAmount(
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

function makePart(
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
    externalRef: isTrial ? null : makeReference(id, line.id),
    ...{ line, isTrial, pack: price.packId, quantity: { units: price.quantity ?? "" }, ...amounts },
    isCouponOver: isCoupon && payer !== null && payer.couponUntil > line.start,
    expiresAtMs: hasPeriod ? line.end * 1_000 : undefined,
    elseExpiresAtMs: hasPeriod && line.isProration ? latest * 1_000 : undefined,
  };
}

/** Whether the carry covers an invoice, or all its lines are negative. Then it grants nothing, whoever its user is. */
export const isCovered = ({ parts, account, rejectionReason }: Offer): boolean =>
  parts.length === 0 && rejectionReason === null && account !== null && account.paidFor === 0n;
