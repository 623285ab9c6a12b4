import {
  addFractions,
  type Fraction,
  fraction,
  leastOf,
  mostOf,
  multiplyFractions,
  readFraction,
  reduceFraction,
  subtractFractions,
  ZERO,
} from "../books/amounts/fraction.ts";
import type { Minor } from "../db/schema.ts";
import { type Fact, filterFacts } from "./facts.ts";

/** The paid and the returned amounts of a payment, in the currency's smallest unit (S4). */
export interface MoneyState {
  readonly currency: string | null;
  readonly captured: bigint;
  readonly refunded: bigint;
  /** A dispute may withhold a part of a cent. */
  readonly withheld: Fraction;
  /** The base of the share: `captured`, or more if a customer's balance paid a part. */
  readonly whole: Fraction;
  /** The part of the payment that is due back. */
  readonly share: Fraction;
}

/** A charge, or the charges of one payment intent whose amounts are unknown. */
interface ChargeUnit {
  readonly paymentId: string;
  /** Null if no event had the captured amount. */
  captured: bigint | null;
  refunded: bigint;
  withheld: Fraction;
}

const positive = (a: bigint): bigint => (a > 0n ? a : 0n);

/** Returns the state of a payment's money, from Stripe's latest data. */
export function deriveMoney(facts: readonly Fact[]): MoneyState {
  const units = readChargeUnits(facts);
  const known = units.reduce((sum, { captured }) => sum + (captured ?? 0n), 0n);
  // The charges without an amount together have the invoice's or session's amount, less the other charges.
  const hasUnknown = units.length === 0 || units.some(({ captured }) => captured === null);
  const unknown = hasUnknown ? positive(sumCharged(facts) - known) : 0n;
  let refunded = 0n;
  let [withheld, taken, takenOfUnknown] = [ZERO, ZERO, ZERO];
  for (const unit of units) {
    refunded += unit.refunded;
    withheld = addFractions(withheld, unit.withheld);
    const back = addFractions(fraction(unit.refunded), unit.withheld);
    if (unit.captured === null) takenOfUnknown = addFractions(takenOfUnknown, back);
    else taken = addFractions(taken, leastOf(fraction(unit.captured), back));
  }
  taken = addFractions(taken, leastOf(fraction(unknown), takenOfUnknown));
  const captured = known + unknown;
  const whole = mostOf(fraction(captured), sumGrantedWorth(facts));
  return { currency: findCurrency(facts), captured, refunded, withheld, whole, share: calculateShare(taken, whole) };
}

/** Returns the share `taken` of `whole`; 0 of 0 is 0. */
export function calculateShare(taken: Fraction, whole: Fraction): Fraction {
  if (whole.numerator === 0n) return ZERO;
  return reduceFraction(multiplyFractions(taken, { numerator: whole.denominator, denominator: whole.numerator }));
}

/** Returns the amount that is due back from a balance, rounded down to a step. */
export function calculateDue(initialMinor: Minor, { numerator, denominator }: Fraction): Minor {
  return Number((BigInt(initialMinor) * numerator) / denominator) as Minor;
}

/** Returns what an invoice's credits cost: its total, part of which a customer's balance may have paid, less what the carry took. */
function sumGrantedWorth(facts: readonly Fact[]): Fraction {
  const accounts = filterFacts(facts, "account");
  return filterFacts(facts, "invoice")
    .map(({ id, data }) => {
      const carried = accounts.find((account) => account.id === id)?.data.carriedWithTax;
      return subtractFractions(fraction(data.total), carried === undefined ? ZERO : readFraction(carried));
    })
    .reduce(mostOf, ZERO);
}

function findCurrency(facts: readonly Fact[]): string | null {
  for (const kind of ["charge", "invoice_payment", "invoice", "session", "intent"] as const) {
    const found = filterFacts(facts, kind).map(({ data }) => data.currency);
    // Any charge has the currency, because a payment has only one.
    const [first] = found.toSorted();
    if (first !== undefined && first !== null) return first;
  }
  return null;
}

function sumCharged(facts: readonly Fact[]): bigint {
  const paid = filterFacts(facts, "invoice").map(({ data }) => data.paid);
  const totals = filterFacts(facts, "session").map(({ data }) => data.total ?? 0);
  const received = filterFacts(facts, "intent").map(({ data }) => data.total ?? 0);
  const [amounts = []] = [paid, totals, received].filter((kindAmounts) => kindAmounts.length > 0);
  return BigInt(Math.max(0, ...amounts));
}

function readChargeUnits(facts: readonly Fact[]): readonly ChargeUnit[] {
  const units = new Map<string, ChargeUnit>();
  const unitOf = (id: string, paymentId: string): ChargeUnit => {
    const unit = units.get(id) ?? { paymentId, captured: null, refunded: 0n, withheld: ZERO };
    units.set(id, unit);
    return unit;
  };
  const refunds = filterFacts(facts, "refund");
  for (const { id, at, data } of filterFacts(facts, "charge")) {
    const unit = unitOf(id, data.of);
    unit.captured = BigInt(data.captured);
    const failed = refunds
      .filter((refund) => (refund.data.charge ?? refund.data.of) === (refund.data.charge === null ? data.of : id))
      .filter((refund) => refund.data.isFailed && (refund.data.failedAt ?? 0) >= at);
    const lost = failed.reduce((sum, refund) => sum + BigInt(refund.data.amount), 0n);
    unit.refunded = positive(BigInt(data.refunded) - lost);
  }
  for (const { data } of filterFacts(facts, "dispute")) {
    const unit = unitOf(data.charge, data.of);
    unit.withheld = addFractions(unit.withheld, multiplyFractions(fraction(data.amount), readFraction(data.out)));
  }
  for (const { id, data } of filterFacts(facts, "invoice_payment")) {
    const unitsOfPayment = [...units.values()].filter(({ paymentId }) => paymentId === id);
    if (unitsOfPayment.some(({ captured }) => captured !== null)) continue;
    const unit = unitsOfPayment[0] ?? unitOf(id, id);
    unit.captured = BigInt(data.paid);
  }
  return [...units.values()];
}
