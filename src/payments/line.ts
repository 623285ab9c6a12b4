import { addFractions, type Fraction, reduceFraction } from "../books/amounts/amount.ts";
import type { Steps } from "../db/schema.ts";
import { type Fact, factsOf, type InvoiceLine } from "./facts.ts";
import { lineKey } from "./offers.ts";

/** A line of an invoice that was granted (S6). Its balances name it. */
export interface StoredLine {
  /** `<invoice>:<line>`, or `<invoice>:` of an invoice that was settled by hand. */
  readonly key: string;
  /** Above 0, in the currency's smallest unit, as are `credited`, `owed` and `paid`. */
  readonly net: number;
  readonly currency: string;
  readonly price: string | null;
  readonly subscription: string | null;
  /** What was credited of it, and applied. */
  readonly credited: FractionText;
  /** The share of its balances that was taken for that: `r` of S6. */
  readonly returned: FractionText;
  /** What it paid of debts: `p` of S6, times `net`. */
  readonly paid: number;
  /** What it adds to its debt. */
  readonly owed: number;
  /** The debt that it adds to. Null while it was neither credited nor paid. */
  readonly debt: string | null;
}

/** A debt of a user and a customer in one currency. */
export interface StoredDebt {
  readonly id: string;
  readonly accountId: number;
  /** Null once it was erased, which ends it. */
  readonly customer: string | null;
  readonly currency: string;
  readonly amount: number;
  /** Since when it is above 0. */
  readonly sinceMs: number;
  /** The lines that paid of it. */
  readonly payers: readonly DebtPayer[];
}

export interface DebtPayer {
  readonly line: string;
  readonly amount: number;
  readonly atMs: number;
}

/** An exact fraction as it is stored: a double would round it. */
export type FractionText = readonly [numerator: string, denominator: string];

export const ZERO: Fraction = { numerator: 0n, denominator: 1n };
export const ONE: Fraction = { numerator: 1n, denominator: 1n };

export const fractionText = ({ numerator, denominator }: Fraction): FractionText => [`${numerator}`, `${denominator}`];
export const readFraction = ([numerator, denominator]: FractionText): Fraction => ({
  numerator: BigInt(numerator),
  denominator: BigInt(denominator),
});
export const fraction = (numerator: number | bigint, denominator: number | bigint = 1n): Fraction => ({
  numerator: BigInt(numerator),
  denominator: BigInt(denominator),
});

const isLess = (a: Fraction, b: Fraction): boolean => a.numerator * b.denominator < b.numerator * a.denominator;
export const leastOf = (a: Fraction, b: Fraction): Fraction => (isLess(b, a) ? b : a);
export const mostOf = (a: Fraction, b: Fraction): Fraction => (isLess(a, b) ? b : a);
/** May be below 0, so it is not reduced. */
export const minus = (a: Fraction, b: Fraction): Fraction => ({
  numerator: a.numerator * b.denominator - b.numerator * a.denominator,
  denominator: a.denominator * b.denominator,
});
export const times = (a: Fraction, b: Fraction): Fraction => ({
  numerator: a.numerator * b.numerator,
  denominator: a.denominator * b.denominator,
});
export const roundUp = ({ numerator, denominator }: Fraction): number => {
  const down = numerator / denominator;
  return Number(numerator > down * denominator ? down + 1n : down);
};

/** The invoice of a line's key. It is one of its payment's names. */
export const invoiceOf = (key: string): string => key.slice(0, key.indexOf(":"));

function newLine(key: string, of: Pick<StoredLine, "net" | "currency" | "price" | "subscription">): StoredLine {
  const none = fractionText(ZERO);
  return { key, ...of, credited: none, returned: none, paid: 0, owed: 0, debt: null };
}

/** The line of a key by what Stripe said of the payment's invoices. Null where it said none that was paid. */
export function lineOf(facts: readonly Fact[], key: string): StoredLine | null {
  for (const { id, data } of factsOf(facts, "invoice")) {
    const { currency, subscription } = data;
    const net = netOf(data.lines);
    if (key === lineKey(id, "") && net > 0) return newLine(key, { net, currency, price: null, subscription });
    const line = data.lines.find((one) => lineKey(id, one.id) === key);
    if (line === undefined || line.net <= 0) continue;
    return newLine(key, { net: line.net, currency, price: line.price, subscription: line.subscription });
  }
  return null;
}

/** What is credited of a line, in its currency. Several lines share a credit by their net amounts. */
export function creditOf(facts: readonly Fact[], { key, currency }: StoredLine): Fraction {
  const invoice = factsOf(facts, "invoice").find(({ id }) => id === invoiceOf(key));
  const nets = new Map(invoice?.data.lines.map(({ id, net }) => [lineKey(invoice.id, id), Math.max(0, net)]));
  let sum = ZERO;
  for (const { data } of factsOf(facts, "credit")) {
    if (data.currency !== currency) continue;
    const shares = new Map(data.lines.map((id) => [lineKey(invoiceOf(key), id), 0]));
    for (const one of shares.keys()) shares.set(one, nets.get(one) ?? 0);
    const all = [...shares.values()].reduce((total, net) => total + net, 0);
    // An invoice that was settled by hand is one line.
    if (key.endsWith(":")) sum = addFractions(sum, fraction(data.amount));
    else if (all > 0) sum = addFractions(sum, fraction(BigInt(data.amount) * BigInt(shares.get(key) ?? 0), all));
  }
  return sum;
}

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
const netOf = (lines: readonly Pick<InvoiceLine, "net">[]): number =>
  lines.reduce((sum, { net }) => sum + Math.max(0, net), 0);

function currencyOf(facts: readonly Fact[]): string | null {
  for (const kind of ["charge", "invoice_payment", "invoice", "session", "intent"] as const) {
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
  const received = factsOf(facts, "intent").map(({ data }) => data.total ?? 0);
  const [said = []] = [paid, totals, received].filter((amounts) => amounts.length > 0);
  return BigInt(Math.max(0, ...said));
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
