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
  /** The share of its balances that was taken for the credit: `r` of S6. */
  readonly returned: FractionText;
  /** The amount of debts that it paid: `p` of S6, times `net`. */
  readonly paid: number;
  /** The amount that it adds to its debt. */
  readonly owed: number;
  /** The debt that it adds to. Null if it was neither credited nor paid a debt. */
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
  /** Since when it is above 0. */
  readonly sinceMs: number;
  /** The lines that paid a part of it. */
  readonly payers: readonly DebtPayer[];
}

export interface DebtPayer {
  readonly line: string;
  readonly amount: number;
  readonly atMs: number;
}

/** An exact fraction as it is stored: a double would round it. */
export type FractionText = readonly [numerator: string, denominator: string];

export const fractionText = ({ numerator, denominator }: Fraction): FractionText => [`${numerator}`, `${denominator}`];
export const readFraction = ([numerator, denominator]: FractionText): Fraction => ({
  numerator: BigInt(numerator),
  denominator: BigInt(denominator),
});
/** The invoice of a line's key. It is one of its payment's names. */
export const invoiceOf = (key: string): string => key.slice(0, key.indexOf(":"));

/** The key of a line, unique in an environment. */
export const lineKey = (invoiceId: string, lineId: string): string => `${invoiceId}:${lineId}`;

function newLine(key: string, of: Pick<StoredLine, "net" | "currency" | "price" | "subscription">): StoredLine {
  const none = fractionText(ZERO);
  return { key, ...of, credited: none, returned: none, paid: 0, owed: 0, debt: null };
}

/** The line of a key, from the facts about the payment's invoices. Null when there is no such paid line. */
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

/** The credited amount of a line, in its currency. Several lines share a credit by their net amounts. */
export function creditOf(facts: readonly Fact[], { key, currency }: StoredLine): Fraction {
  const invoice = factsOf(facts, "invoice").find(({ id }) => id === invoiceOf(key));
  const nets = new Map(invoice?.data.lines.map(({ id, net }) => [lineKey(invoice.id, id), Math.max(0, net)]));
  let sum = ZERO;
  for (const { data } of factsOf(facts, "credit")) {
    if (data.currency !== currency) continue;
    const shares = new Map(data.lines.map((id) => [lineKey(invoiceOf(key), id), 0]));
    for (const one of shares.keys()) shares.set(one, nets.get(one) ?? 0);
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
interface LineUnit {
  readonly of: string;
  /** Null when no event had the captured amount. */
  captured: bigint | null;
  refunded: bigint;
  withheld: bigint;
}

export const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const most = (a: bigint, b: bigint): bigint => (a > b ? a : b);
const positive = (a: bigint): bigint => (a > 0n ? a : 0n);

/** The state of a payment's money, from Stripe's latest data. */
export function moneyOf(facts: readonly Fact[]): MoneyState {
  const units = unitsOf(facts);
  const known = units.reduce((sum, { captured }) => sum + (captured ?? 0n), 0n);
  // Charges without an amount share the invoice's or session's amount, less the other charges.
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
  const share = whole === 0n ? ZERO : { numerator: taken, denominator: whole };
  return { currency: currencyOf(facts), captured, refunded, withheld, whole, share: reduceFraction(share) };
}

/** The amount due back of a balance, rounded down to a step. */
export function dueOf(initialSteps: Steps, { numerator, denominator }: Fraction): Steps {
  return Number((BigInt(initialSteps) * numerator) / denominator) as Steps;
}

/** The total value of a payment. Parts that credits or a customer's balance paid are not refunded. */
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
  const [said = []] = [paid, totals, received].filter((amounts) => amounts.length > 0);
  return BigInt(Math.max(0, ...said));
}

function unitsOf(facts: readonly Fact[]): readonly LineUnit[] {
  const units = new Map<string, LineUnit>();
  const unitOf = (id: string, of: string): LineUnit => {
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
