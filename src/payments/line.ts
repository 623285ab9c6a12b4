import { addFractions, type Fraction } from "../books/amounts/amount.ts";
import { type Fact, factsOf } from "./facts.ts";
import { lineKey } from "./offers.ts";
import { netOf } from "./share.ts";

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
