import { type Fraction, fraction, fromSteps, ONE, toSteps, type Unit } from "../books/amounts/amount.ts";
import { USER_BALANCES_MAX } from "../books/credits/grant.ts";
import { type NewBalances, planGrant } from "../books/ledger/new-balances.ts";
import type { Pack } from "../catalog/pack.ts";
import type { Steps } from "../db/schema.ts";
import { PurserError } from "../errors.ts";
import { type Fact, factsOf, type IntentFact, type InvoiceFact, type InvoiceLine, type SessionFact } from "./facts.ts";
import { lineKey } from "./line.ts";
import type { Reason } from "./reasons.ts";
import type { PriceSetting, StripeSetting } from "./stripe-setting.ts";

/** A grant that a payment would make, with its user. */
export interface Offer {
  readonly userId: string | null;
  /** The bought parts, in the order of the invoice's lines. */
  readonly parts: readonly OfferPart[];
  /** The reason why nothing can be granted, although the parts could be. */
  readonly flaw: "lines_missing" | "proration" | null;
}

export interface OfferPart {
  readonly externalRef: string;
  /** The invoice line. Null for a session, and for an unpaid line. */
  readonly line: string | null;
  readonly isTrial: boolean;
  /** A pack's id or name. Null if no pack is named. */
  readonly pack: string | null;
  /** The factor by which the amounts of a pack with items are multiplied. */
  readonly times: Fraction;
  /** The quantity of a legacy pack. `amount` means the paid amount, in cents of the setting's currency. */
  readonly quantity: { readonly units: string | number } | { readonly amount: SessionFact["data"] };
  /** When its balances expire. Undefined for the pack's default. */
  readonly expiresAtMs: number | undefined;
  /** When its balances expire if `expiresAtMs` is in the past. */
  readonly elseExpiresAtMs: number | undefined;
}

/** Returns the reference of a payment's grants. References from callers must not begin with `stripe:` (C21). */
export const refOf = (...parts: readonly string[]): string => ["stripe", ...parts].join(":");

const TIMES_MAX = 100n;
/** A quantity in a session's metadata. Longer numbers could be rounded. */
const DECIMAL = /^\d{1,13}(\.\d{1,6})?$/;

export interface GrantTerms {
  readonly currency: string;
  readonly note: string;
  readonly nowMs: number;
  /** Returns the id of a new balance: the same in every attempt. */
  readonly newId: (index: number) => string;
  /** Returns the pack with an id or a name. */
  readonly packOf: (pack: string) => Pack | null;
  /** The references of the user's past trials. */
  readonly trials: ReadonlySet<string>;
}

/** Returns the possible grants of a payment, from its sessions, invoices and intents, in this order. None for products that are not set up. */
export function offersOf(
  facts: readonly Fact[],
  setting: Pick<StripeSetting, "prices" | "currency">,
  customerUser: string | null,
): readonly Offer[] {
  return [
    ...factsOf(facts, "session").map(offerOfSession),
    ...factsOf(facts, "invoice").flatMap((invoice) => offerOfInvoice(invoice, setting, customerUser) ?? []),
    ...factsOf(facts, "intent").map(offerOfSession),
  ];
}

function offerOfSession({ userId, data }: SessionFact | IntentFact): Offer {
  const part = {
    externalRef: refOf(data.ref),
    ...{ line: null, isTrial: false, pack: data.pack, times: ONE },
    quantity: data.quantity === null ? { amount: data } : { units: data.quantity },
    ...{ expiresAtMs: undefined, elseExpiresAtMs: undefined },
  };
  return { userId, parts: [part], flaw: null };
}

/** Returns the grant of an invoice. Null if none of its prices is in the setting. */
function offerOfInvoice(
  invoice: InvoiceFact,
  setting: Pick<StripeSetting, "prices" | "currency">,
  customerUser: string | null,
): Offer | null {
  const { lines, hasMore, isSubscription } = invoice.data;
  const parts: OfferPart[] = [];
  let isShareUnknown = false;
  for (const line of lines) {
    const price = setting.prices.find((candidate) => candidate.price === line.price);
    const times = price === undefined ? null : timesOfLine(invoice, line, price, setting.currency);
    if (price === undefined || times === null) continue;
    if (times === "proration") isShareUnknown = true;
    else parts.push(partOf(invoice, line, price, times));
  }
  if (parts.length === 0 && !isShareUnknown && !(hasMore && setting.prices.length > 0)) return null;
  const userId = invoice.userId ?? (isSubscription ? customerUser : null);
  return { userId, parts, flaw: isShareUnknown ? "proration" : hasMore ? "lines_missing" : null };
}

/** Returns how many times a line buys the pack of its price. Null for nothing; `proration` if the share is unknown. */
function timesOfLine(
  { data }: InvoiceFact,
  line: InvoiceLine,
  price: PriceSetting,
  currency: string,
): Fraction | "proration" | null {
  const { net, quantity, isProration } = line;
  if (net < 0 || (net === 0 && (isProration || price.trial !== true))) return null;
  if (!isProration) {
    const times = BigInt(quantity ?? 1);
    return times > 0n ? { numerator: times, denominator: 1n } : null;
  }
  const whole = wholeOf(data, line, price, currency);
  return whole === null ? "proration" : { numerator: BigInt(net) * whole.denominator, denominator: whole.numerator };
}

/** Returns the full amount of one unit of a price. */
function wholeOf(
  { lines, currency: invoiceCurrency }: InvoiceFact["data"],
  line: InvoiceLine,
  price: PriceSetting,
  currency: string,
): Fraction | null {
  if (price.amount !== undefined && invoiceCurrency === currency) return fraction(price.amount);
  const whole = lines.find(
    (other) => other.price === line.price && !other.isProration && other.amount > 0 && (other.quantity ?? 1) > 0,
  );
  if (whole !== undefined) return { numerator: BigInt(whole.amount), denominator: BigInt(whole.quantity ?? 1) };
  const { unitAmount } = line;
  return unitAmount !== null && unitAmount > 0 ? { numerator: BigInt(unitAmount), denominator: 1n } : null;
}

function partOf({ id, data }: InvoiceFact, line: InvoiceLine, price: PriceSetting, times: Fraction): OfferPart {
  const isTrial = line.net === 0;
  const hasPeriod = price.expires === "period" && line.end > line.start;
  const latest = Math.max(...data.lines.map(({ end }) => end));
  return {
    externalRef: isTrial ? refOf("trial", price.price) : refOf(id, line.id),
    line: isTrial ? null : lineKey(id, line.id),
    ...{ isTrial, pack: price.packId, times, quantity: { units: price.quantity ?? "" } },
    expiresAtMs: hasPeriod ? line.end * 1_000 : undefined,
    elseExpiresAtMs: hasPeriod && line.isProration ? latest * 1_000 : undefined,
  };
}

/** The grant for one part of an offer. */
export interface PlannedGrant {
  readonly line: string | null;
  readonly grant: NewBalances;
}

/** Returns the grants of an offer, or the reason why there are none: `trial_over` if it only has a trial that the user already had. */
export function planOffer(offer: Offer, terms: GrantTerms): readonly PlannedGrant[] | Reason | "trial_over" {
  const { userId } = offer;
  if (userId === null) return "no_user";
  const usedTrials = new Set(terms.trials);
  const planned: PlannedGrant[] = [];
  let count = 0;
  for (const part of offer.parts) {
    if (part.isTrial && usedTrials.has(part.externalRef)) continue;
    if (part.isTrial) usedTrials.add(part.externalRef);
    const idOf = (index: number) => terms.newId(count + index);
    const grant = planPart(part, { ...terms, userId, newId: idOf });
    if (typeof grant === "string") return grant;
    planned.push({ line: part.line, grant });
    count += grant.balances.length;
    if (count > USER_BALANCES_MAX) return "quota";
  }
  if (offer.flaw !== null) return offer.flaw;
  return planned.length === 0 ? "trial_over" : planned.filter(({ grant }) => grant.balances.length > 0);
}

function planPart(part: OfferPart, terms: GrantTerms & { readonly userId: string }): NewBalances | Reason {
  const { userId, nowMs } = terms;
  const { externalRef, times } = part;
  const pack = part.pack === null ? null : terms.packOf(part.pack);
  if (pack === null || pack.archivedAtMs !== null) return "no_pack";
  const hasItems = pack.items.length > 0;
  const quantity = pack.unit === null ? null : quantityOf(part, pack.unit, terms.currency);
  if (typeof quantity === "string") return quantity;
  if (hasItems && times.numerator > TIMES_MAX * times.denominator) return "quantity";
  const hasExpired = part.expiresAtMs !== undefined && part.expiresAtMs <= nowMs;
  const expiresAt = hasExpired ? (part.elseExpiresAtMs ?? part.expiresAtMs) : part.expiresAtMs;
  const common = {
    userId,
    packId: pack.id,
    externalRef,
    notes: terms.note,
    source: "purchase" as const,
    cause: "payment" as const,
  };
  // A share below one step issues no balance.
  const isShare = !("amount" in part.quantity) && Number(part.quantity.units) > 0 && times.numerator > 0n;
  const isBelowStep = !hasItems && quantity === 0 && isShare;
  try {
    const input = { ...common, quantity: isBelowStep ? 1 : quantity, expiresAt };
    const planned = planGrant(input, pack, nowMs, terms.newId);
    if (isBelowStep) return { ...planned, balances: [] };
    return hasItems ? (multiplyGrant(planned, times) ?? "quantity") : planned;
  } catch (error) {
    if (!(error instanceof PurserError)) throw error;
    return error.code === "invalid_quantity" ? "quantity" : "period_over";
  }
}

/** Returns the quantity for a legacy pack in its unit, rounded down to a step. */
export function quantityOf(
  { quantity, times }: Pick<OfferPart, "quantity" | "times">,
  unit: Unit,
  currency: string,
): number | Reason {
  if ("amount" in quantity) {
    if (unit !== "cents") return "quantity";
    return quantity.amount.currency === currency ? (quantity.amount.goods ?? 0) : "currency";
  }
  const { units } = quantity;
  if (typeof units === "string" && !DECIMAL.test(units)) return "quantity";
  const steps = toSteps(unit, Number(units));
  if (steps === null) return "quantity";
  // `planGrant` refuses amounts beyond the unit's maximum.
  return fromSteps(unit, Number(shareOf(steps, times)) as Steps);
}

const shareOf = (steps: number, { numerator, denominator }: Fraction): bigint =>
  (BigInt(steps) * numerator) / denominator;

/** Returns the balances of a pack with items, multiplied by a factor, without empty balances. Null if one exceeds its unit's maximum. */
function multiplyGrant(grant: NewBalances, times: Fraction): NewBalances | null {
  const balances = grant.balances.map((balance) => {
    const steps = Number(shareOf(balance.amountSteps, times)) as Steps;
    return { ...balance, amountSteps: toSteps(balance.unit, fromSteps(balance.unit, steps)) };
  });
  const isExact = (balance: (typeof balances)[number]): balance is typeof balance & { amountSteps: Steps } =>
    balance.amountSteps !== null;
  if (!balances.every(isExact)) return null;
  return { ...grant, balances: balances.filter(({ amountSteps }) => amountSteps > 0) };
}
