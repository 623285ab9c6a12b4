import { type Fraction, fraction, fractionText, multiplyFractions, ONE, ZERO } from "../books/amounts/fraction.ts";
import type { AccountFact, InvoiceFact, InvoiceLine } from "./facts.ts";

/** A Stripe customer as Purser keeps it. Its invoices change it. */
export interface Payer {
  /** The customer, or `#` and its keyed hash after an erasure. */
  readonly key: string;
  /** A random name, for the audit. */
  readonly id: string;
  /** Grows by one with each write. 0 if nothing is stored. */
  readonly version: number;
  /** By currency, in its smallest unit: the money that was returned for lines, and has not paid for other lines yet (S6). */
  readonly carries: Readonly<Record<string, number>>;
  /** The prices of lines that were granted. Their negative lines count even after they have left the setting. */
  readonly prices: readonly string[];
  /** The packs of trials that were granted. */
  readonly trials: readonly string[];
  /** When the latest period ends that a coupon paid and that was granted, in seconds. */
  readonly couponUntil: number;
}

export const newPayer = (key: string, id: string): Payer => ({
  ...{ key, id, version: 0, carries: {}, prices: [], trials: [], couponUntil: 0 },
});

/** An invoice that was settled with the carry of its customer. */
export interface InvoiceAccount {
  readonly fact: AccountFact;
  /** The carry afterwards. */
  readonly carry: bigint;
  /** The money that buys credits. */
  readonly paidFor: bigint;
  /** The share of each line above 0 that is granted. */
  readonly share: Fraction;
  /** Whether the carry took money that Stripe's own balance did not pay. */
  readonly isCarryTooLarge: boolean;
}

const atLeastZero = (amount: bigint): bigint => (amount > 0n ? amount : 0n);
const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const sumOfAmounts = (amounts: readonly number[]): bigint => amounts.reduce((sum, amount) => sum + BigInt(amount), 0n);

/** Settles an invoice with the carry of its customer (S6). `carry` is 0 without a customer. */
export function accountInvoice(
  { id, data }: InvoiceFact,
  isCounted: (price: string) => boolean,
  carry: number,
): InvoiceAccount {
  const lines = data.lines.filter(
    ({ price, quantity }) => price !== null && isCounted(price) && (quantity === null || quantity > 0),
  );
  // Without all its lines, only the invoice's total is known.
  const nets = data.hasMore ? [data.totalWithoutTax] : lines.map(({ net }) => net);
  const bought = sumOfAmounts(nets.filter((net) => net > 0));
  const returned = -sumOfAmounts(nets.filter((net) => net < 0));
  const due = atLeastZero(bought - returned);
  const carried = least(BigInt(carry), due);
  const paidFor = due - carried;
  const carriedWithTax = multiplyFractions(fraction(carried), calculateTaxFactor(data, lines));
  const { numerator, denominator } = carriedWithTax;
  return {
    fact: {
      ...{ kind: "account", id, at: 0, userId: null },
      data: {
        ...{ bought: Number(bought), returned: Number(returned), carried: Number(carried) },
        carriedWithTax: fractionText(carriedWithTax),
      },
    },
    carry: atLeastZero(BigInt(carry) + returned - bought),
    paidFor,
    share: shareOfBought({ bought, returned }, paidFor),
    isCarryTooLarge: carried > 0n && BigInt(data.total - data.paid) * denominator < numerator,
  };
}

/** Returns the share of what was bought that the money paid for. All, if the invoice only has lines that cost nothing. */
function shareOfBought(
  { bought, returned }: Readonly<Record<"bought" | "returned", bigint>>,
  paidFor: bigint,
): Fraction {
  if (bought === 0n) return returned === 0n ? ONE : ZERO;
  return fraction(paidFor, bought);
}

export const shareOfAccount = ({ data: { bought, returned, carried } }: AccountFact): Fraction =>
  shareOfBought(
    { bought: BigInt(bought), returned: BigInt(returned) },
    atLeastZero(BigInt(bought) - BigInt(returned)) - BigInt(carried),
  );

/** Returns the factor that adds the tax to a net amount of the lines: by their own taxes or, if they tell none, by the invoice's. */
function calculateTaxFactor(data: InvoiceFact["data"], lines: readonly InvoiceLine[]): Fraction {
  const net = sumOfAmounts(lines.map((line) => line.net));
  const tax = sumOfAmounts(lines.map((line) => line.tax));
  if (!data.hasMore && data.lines.some((line) => line.tax !== 0))
    return net > 0n ? fraction(atLeastZero(net + tax), net) : ONE;
  const isTaxed = data.totalWithoutTax > 0 && data.total > data.totalWithoutTax;
  return isTaxed ? fraction(data.total, data.totalWithoutTax) : ONE;
}

/** The changes of a payer besides its carry, by what was granted. */
export type PayerMarks = Pick<Payer, "prices" | "trials" | "couponUntil">;

/** Returns a payer after an invoice, or the same object if nothing of it changes. */
export function payerAfter(payer: Payer, { data }: InvoiceFact, { carry }: InvoiceAccount, marks: PayerMarks): Payer {
  const { currency } = data;
  const after = {
    carries: carry === BigInt(payer.carries[currency] ?? 0) ? payer.carries : withCarry(payer, currency, carry),
    prices: [...new Set([...payer.prices, ...marks.prices])],
    trials: [...new Set([...payer.trials, ...marks.trials])],
    couponUntil: Math.max(payer.couponUntil, marks.couponUntil),
  };
  const isSame =
    after.carries === payer.carries &&
    after.prices.length === payer.prices.length &&
    after.trials.length === payer.trials.length &&
    after.couponUntil === payer.couponUntil;
  return isSame ? payer : { ...payer, ...after };
}

/** The largest carry. A double represents every whole number up to it. */
export const CARRY_MAX = 2 ** 53;
export const withCarry = ({ carries }: Payer, currency: string, carry: bigint): Payer["carries"] => ({
  ...carries,
  [currency]: Number(least(carry, BigInt(CARRY_MAX))),
});
