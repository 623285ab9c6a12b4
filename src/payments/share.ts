import { type Fraction, reduceFraction } from "../books/amounts/amount.ts";
import type { Steps } from "../db/schema.ts";
import { type Fact, factsOf, type InvoiceLine } from "./facts.ts";

/** What of a payment was paid and what went back, in the smallest unit of its currency (S4). */
export interface MoneyState {
  readonly currency: string | null;
  readonly captured: bigint;
  readonly refunded: bigint;
  readonly withheld: bigint;
  /** What the share is of: `captured`, or more where credits paid a part. */
  readonly whole: bigint;
  /** The part of the payment that is due back. */
  readonly share: Fraction;
}

/** A charge, or all that is known of the charges of one payment intent whose own amount is not known. */
interface Unit {
  readonly of: string;
  /** Null: no event said what was captured. */
  captured: bigint | null;
  refunded: bigint;
  withheld: bigint;
}

export const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const most = (a: bigint, b: bigint): bigint => (a > b ? a : b);
const positive = (a: bigint): bigint => (a > 0n ? a : 0n);

/** The state of a payment's money, by what Stripe said last. */
export function moneyOf(facts: readonly Fact[]): MoneyState {
  const units = unitsOf(facts);
  const known = units.reduce((sum, { captured }) => sum + (captured ?? 0n), 0n);
  // Charges of which no event said an amount share what the invoice or the session says, beyond the others.
  const rest = units.length === 0 || units.some(({ captured }) => captured === null);
  const unknown = rest ? positive(totalOf(facts) - known) : 0n;
  let [refunded, withheld, taken, ofUnknown] = [0n, 0n, 0n, 0n];
  for (const unit of units) {
    refunded += unit.refunded;
    withheld += unit.withheld;
    if (unit.captured === null) ofUnknown += unit.refunded + unit.withheld;
    else taken += least(unit.captured, unit.refunded + unit.withheld);
  }
  taken += least(unknown, ofUnknown);
  const captured = known + unknown;
  const whole = worthOf(facts, captured);
  const share = whole === 0n ? NOTHING : { numerator: taken, denominator: whole };
  return { currency: currencyOf(facts), captured, refunded, withheld, whole, share: reduceFraction(share) };
}

/** What is due back of a balance, rounded down to a step. */
export function dueOf(initialSteps: Steps, { numerator, denominator }: Fraction): Steps {
  return Number((BigInt(initialSteps) * numerator) / denominator) as Steps;
}

const NOTHING: Fraction = { numerator: 0n, denominator: 1n };

/** What is a payment's whole. What credits or a customer's balance paid of an invoice is not refunded. */
function worthOf(facts: readonly Fact[], captured: bigint): bigint {
  const worths = factsOf(facts, "invoice").flatMap(({ data }) => [data.total, netOf(data.lines)]);
  return worths.map(BigInt).reduce(most, captured);
}

/** The net sum of the lines above 0. */
export const netOf = (lines: readonly Pick<InvoiceLine, "net">[]): number =>
  lines.reduce((sum, { net }) => sum + Math.max(0, net), 0);

function currencyOf(facts: readonly Fact[]): string | null {
  for (const kind of ["charge", "invoice_payment", "invoice", "session"] as const) {
    const found = factsOf(facts, kind).map(({ data }) => data.currency);
    // Of several charges any names it: one payment has one currency.
    const [first] = found.toSorted();
    if (first !== undefined && first !== null) return first;
  }
  return null;
}

function totalOf(facts: readonly Fact[]): bigint {
  const paid = factsOf(facts, "invoice").map(({ data }) => data.paid);
  const totals = factsOf(facts, "session").map(({ data }) => data.total ?? 0);
  return BigInt(Math.max(0, ...(paid.length > 0 ? paid : totals)));
}

function unitsOf(facts: readonly Fact[]): readonly Unit[] {
  const units = new Map<string, Unit>();
  const unitOf = (id: string, of: string): Unit => {
    const unit = units.get(id) ?? { of, captured: null, refunded: 0n, withheld: 0n };
    units.set(id, unit);
    return unit;
  };
  const refunds = factsOf(facts, "refund");
  for (const { id, at, data } of factsOf(facts, "charge")) {
    const unit = unitOf(id, data.of);
    unit.captured = BigInt(data.captured);
    const failed = refunds
      .filter((refund) => (refund.data.charge ?? refund.data.of) === (refund.data.charge === null ? data.of : id))
      .filter((refund) => refund.data.isFailed && (refund.data.failedAt ?? 0) >= at);
    const lost = failed.reduce((sum, refund) => sum + BigInt(refund.data.amount), 0n);
    unit.refunded = positive(BigInt(data.refunded) - lost);
  }
  for (const { data } of factsOf(facts, "dispute")) {
    const unit = unitOf(data.charge, data.of);
    unit.withheld += BigInt(data.out);
  }
  for (const { id, data } of factsOf(facts, "invoice_payment")) {
    const own = [...units.values()].filter(({ of }) => of === id);
    if (own.some(({ captured }) => captured !== null)) continue;
    const unit = own[0] ?? unitOf(id, id);
    unit.captured = BigInt(data.paid);
  }
  return [...units.values()];
}
