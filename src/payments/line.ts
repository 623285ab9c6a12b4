import { addFractions, type Fraction, fraction, reduceFraction, ZERO } from "../books/amounts/amount.ts";
import type { Steps } from "../db/schema.ts";
import { type Fact, factsOf, type InvoiceLine } from "./facts.ts";

/** A granted invoice line (S6). Its balances refer to it. */
export interface StoredLine {
  /** `<invoice>:<line>`, or `<invoice>:` for an invoice that was settled by hand. */
  readonly key: string;
  /** Above 0, in the currency's smallest unit, as are `credited`, `owed` and `paid`. */
  readonly net: number;
  readonly currency: string;
  readonly price: string | null;
  readonly subscription: string | null;
  /** The credited amount that is already applied. */
  readonly credited: FractionText;
  /** The share of its balances that was taken for credits: `r` of S6. */
  readonly returned: FractionText;
  /** The amount of debts that it paid: `p` of S6, times `net`. */
  readonly paid: number;
  /** The amount that it adds to its debt. */
  readonly owed: number;
  /** The debt to which it adds. Null if it was not credited and paid no debt. */
  readonly debt: string | null;
}

/** A debt of a user and a customer in one currency. */
export interface StoredDebt {
  readonly id: string;
  readonly accountId: number;
  /** Null after the user's erasure, which ends the debt. */
  readonly customer: string | null;
  readonly currency: string;
  readonly amount: number;
  /** When it last rose above 0. */
  readonly sinceMs: number;
  /** The lines that paid a part of it. */
  readonly payers: readonly DebtPayer[];
}

export interface DebtPayer {
  readonly line: string;
  readonly amount: number;
  readonly atMs: number;
}

/** An exact fraction in its stored form. A double would round it. */
export type FractionText = readonly [numerator: string, denominator: string];

export const fractionText = ({ numerator, denominator }: Fraction): FractionText => [`${numerator}`, `${denominator}`];
export const readFraction = ([numerator, denominator]: FractionText): Fraction => ({
  numerator: BigInt(numerator),
  denominator: BigInt(denominator),
});
/** Returns the invoice of a line's key. It is one of the payment's names. */
export const invoiceOf = (key: string): string => key.slice(0, key.indexOf(":"));

/** Returns the key of a line, which is unique in an environment. */
export const lineKey = (invoiceId: string, lineId: string): string => `${invoiceId}:${lineId}`;

function newLine(key: string, line: Pick<StoredLine, "net" | "currency" | "price" | "subscription">): StoredLine {
  const none = fractionText(ZERO);
  return { key, ...line, credited: none, returned: none, paid: 0, owed: 0, debt: null };
}

/** Returns the line of a key, from the facts about the payment's invoices. Null when there is no such paid line. */
export function lineOf(facts: readonly Fact[], key: string): StoredLine | null {
  for (const { id, data } of factsOf(facts, "invoice")) {
    const { currency, subscription } = data;
    const net = netOf(data.lines);
    if (key === lineKey(id, "") && net > 0) return newLine(key, { net, currency, price: null, subscription });
    const line = data.lines.find((candidate) => lineKey(id, candidate.id) === key);
    if (line === undefined || line.net <= 0) continue;
    return newLine(key, { net: line.net, currency, price: line.price, subscription: line.subscription });
  }
  return null;
}

/** Returns the credited amount of a line, in its currency. Several lines share a credit by their net amounts. */
export function creditOf(facts: readonly Fact[], { key, currency }: StoredLine): Fraction {
  const invoice = factsOf(facts, "invoice").find(({ id }) => id === invoiceOf(key));
  const nets = new Map(invoice?.data.lines.map(({ id, net }) => [lineKey(invoice.id, id), Math.max(0, net)]));
  let sum = ZERO;
  for (const { data } of factsOf(facts, "credit")) {
    if (data.currency !== currency) continue;
    const shares = new Map(data.lines.map((id) => [lineKey(invoiceOf(key), id), 0]));
    for (const lineOfCredit of shares.keys()) shares.set(lineOfCredit, nets.get(lineOfCredit) ?? 0);
    const all = [...shares.values()].reduce((total, net) => total + net, 0);
    // An invoice that was settled by hand counts as one line.
    if (key.endsWith(":")) sum = addFractions(sum, fraction(data.amount));
    else if (all > 0) sum = addFractions(sum, fraction(BigInt(data.amount) * BigInt(shares.get(key) ?? 0), all));
  }
  return sum;
}

/** The paid and the returned amounts of a payment, in the currency's smallest unit (S4). */
export interface MoneyState {
  readonly currency: string | null;
  readonly captured: bigint;
  readonly refunded: bigint;
  readonly withheld: bigint;
  /** The base of the share: `captured`, or more if credits paid a part. */
  readonly whole: bigint;
  /** The part of the payment that is due back. */
  readonly share: Fraction;
}

/** A charge, or the charges of one payment intent whose amounts are unknown. */
interface ChargeUnit {
  readonly paymentId: string;
  /** Null if no event had the captured amount. */
  captured: bigint | null;
  refunded: bigint;
  withheld: bigint;
}

export const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const most = (a: bigint, b: bigint): bigint => (a > b ? a : b);
const positive = (a: bigint): bigint => (a > 0n ? a : 0n);

/** Returns the state of a payment's money, from Stripe's latest data. */
export function moneyOf(facts: readonly Fact[]): MoneyState {
  const units = unitsOf(facts);
  const known = units.reduce((sum, { captured }) => sum + (captured ?? 0n), 0n);
  // The charges without an amount together have the invoice's or session's amount, less the other charges.
  const hasUnknown = units.length === 0 || units.some(({ captured }) => captured === null);
  const unknown = hasUnknown ? positive(totalOf(facts) - known) : 0n;
  let [refunded, withheld, taken, takenOfUnknown] = [0n, 0n, 0n, 0n];
  for (const unit of units) {
    refunded += unit.refunded;
    withheld += unit.withheld;
    if (unit.captured === null) takenOfUnknown += unit.refunded + unit.withheld;
    else taken += least(unit.captured, unit.refunded + unit.withheld);
  }
  taken += least(unknown, takenOfUnknown);
  const captured = known + unknown;
  const whole = worthOf(facts, captured);
  const share = whole === 0n ? ZERO : { numerator: taken, denominator: whole };
  return { currency: currencyOf(facts), captured, refunded, withheld, whole, share: reduceFraction(share) };
}

/** Returns the amount that is due back from a balance, rounded down to a step. */
export function dueOf(initialSteps: Steps, { numerator, denominator }: Fraction): Steps {
  return Number((BigInt(initialSteps) * numerator) / denominator) as Steps;
}

/** Returns the total value of a payment, including parts that credits or a customer's balance paid, which cannot be refunded. */
function worthOf(facts: readonly Fact[], captured: bigint): bigint {
  const worths = factsOf(facts, "invoice").flatMap(({ data }) => [data.total, netOf(data.lines)]);
  return worths.map(BigInt).reduce(most, captured);
}

/** Returns the sum of the positive net amounts. */
const netOf = (lines: readonly Pick<InvoiceLine, "net">[]): number =>
  lines.reduce((sum, { net }) => sum + Math.max(0, net), 0);

function currencyOf(facts: readonly Fact[]): string | null {
  for (const kind of ["charge", "invoice_payment", "invoice", "session", "intent"] as const) {
    const found = factsOf(facts, kind).map(({ data }) => data.currency);
    // Any charge has the currency, because a payment has only one.
    const [first] = found.toSorted();
    if (first !== undefined && first !== null) return first;
  }
  return null;
}

function totalOf(facts: readonly Fact[]): bigint {
  const paid = factsOf(facts, "invoice").map(({ data }) => data.paid);
  const totals = factsOf(facts, "session").map(({ data }) => data.total ?? 0);
  const received = factsOf(facts, "intent").map(({ data }) => data.total ?? 0);
  const [amounts = []] = [paid, totals, received].filter((kindAmounts) => kindAmounts.length > 0);
  return BigInt(Math.max(0, ...amounts));
}

function unitsOf(facts: readonly Fact[]): readonly ChargeUnit[] {
  const units = new Map<string, ChargeUnit>();
  const unitOf = (id: string, paymentId: string): ChargeUnit => {
    const unit = units.get(id) ?? { paymentId, captured: null, refunded: 0n, withheld: 0n };
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
    const unitsOfPayment = [...units.values()].filter(({ paymentId }) => paymentId === id);
    if (unitsOfPayment.some(({ captured }) => captured !== null)) continue;
    const unit = unitsOfPayment[0] ?? unitOf(id, id);
    unit.captured = BigInt(data.paid);
  }
  return [...units.values()];
}
