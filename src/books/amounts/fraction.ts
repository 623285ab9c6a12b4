/** Exact fractions, for shares of refunds and prices. */

/** An exact fraction, 0 or more. */
export interface Fraction {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

function greatestCommonDivisor(a: bigint, b: bigint): bigint {
  let [large, small] = [a, b];
  while (small !== 0n) [large, small] = [small, large % small];
  return large;
}

/** Returns the fraction in lowest terms. */
export function reduceFraction({ numerator, denominator }: Fraction): Fraction {
  const divisor = greatestCommonDivisor(numerator, denominator);
  return { numerator: numerator / divisor, denominator: denominator / divisor };
}

export function addFractions(a: Fraction, b: Fraction): Fraction {
  return reduceFraction({
    numerator: a.numerator * b.denominator + b.numerator * a.denominator,
    denominator: a.denominator * b.denominator,
  });
}

export const ZERO: Fraction = { numerator: 0n, denominator: 1n };
export const ONE: Fraction = { numerator: 1n, denominator: 1n };

export const fraction = (numerator: number | bigint, denominator: number | bigint = 1n): Fraction => ({
  numerator: BigInt(numerator),
  denominator: BigInt(denominator),
});

/** An exact fraction in its stored form. A double would round it. */
export type FractionText = readonly [numerator: string, denominator: string];

export const fractionText = ({ numerator, denominator }: Fraction): FractionText => [`${numerator}`, `${denominator}`];
export const readFraction = ([numerator, denominator]: FractionText): Fraction => ({
  numerator: BigInt(numerator),
  denominator: BigInt(denominator),
});

const isLess = (a: Fraction, b: Fraction): boolean => a.numerator * b.denominator < b.numerator * a.denominator;
export const leastOf = (a: Fraction, b: Fraction): Fraction => (isLess(b, a) ? b : a);
export const mostOf = (a: Fraction, b: Fraction): Fraction => (isLess(a, b) ? b : a);
/** The difference may be negative, so it is not reduced. */
export const subtractFractions = (a: Fraction, b: Fraction): Fraction => ({
  numerator: a.numerator * b.denominator - b.numerator * a.denominator,
  denominator: a.denominator * b.denominator,
});
export const multiplyFractions = (a: Fraction, b: Fraction): Fraction => ({
  numerator: a.numerator * b.numerator,
  denominator: a.denominator * b.denominator,
});
/** The least whole number that is not below the fraction. */
export const roundUp = ({ numerator, denominator }: Fraction): number => {
  const down = numerator / denominator;
  return Number(numerator > down * denominator ? down + 1n : down);
};
