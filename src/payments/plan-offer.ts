import { fromMinor, toMinor, type Unit } from "../books/amounts/amount.ts";
import { type Fraction, fraction, multiplyFractions } from "../books/amounts/fraction.ts";
import { USER_BALANCES_MAX } from "../books/credits/grant.ts";
import { type NewBalances, planGrant } from "../books/ledger/new-balances.ts";
import type { Pack } from "../catalog/pack.ts";
import type { Minor } from "../db/schema.ts";
import { PurserError } from "../errors.ts";
import type { InvoiceAccount, PayerMarks } from "./carry.ts";
import { isCovered, type Offer, type OfferPart, TRIAL_REFS } from "./offer.ts";
import type { Reason } from "./reasons.ts";

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

/** The grants of an offer, without those that come to less than a step. */
export interface PlannedOffer {
  readonly grants: readonly NewBalances[];
  readonly account: InvoiceAccount | null;
  readonly marks: PayerMarks;
}

export const NO_MARKS: PayerMarks = { prices: [], trials: [], couponUntil: 0 };

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
  if (offer.rejectionReason !== null) return offer.rejectionReason;
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
    // A session says the amount of an open-amount pack, and buys it once.
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

/** Returns the quantity of one unit of an open-amount pack. */
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
    const minor = Number((BigInt(balance.amountMinor) * numerator) / denominator) as Minor;
    return { ...balance, amountMinor: toMinor(balance.unit, fromMinor(balance.unit, minor)) };
  });
  const isExact = (balance: (typeof balances)[number]): balance is typeof balance & { amountMinor: Minor } =>
    balance.amountMinor !== null;
  if (!balances.every(isExact)) return null;
  return { ...grant, balances: balances.filter(({ amountMinor }) => amountMinor > 0) };
}
