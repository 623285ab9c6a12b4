import type { Minor } from "../../db/schema.ts";
import { numberText, numberValue, parseJson } from "../../lib/json.ts";
import { type Fraction, fraction, ZERO } from "./fraction.ts";

/**
 * The units of amounts. Inside Purser, amounts are integers in a unit's minor units, and no float is ever added, multiplied or
 * compared. In the API they are JSON numbers in units (C1).
 */
export const UNITS = ["count", "tokens", "seconds", "cents"] as const;
export type Unit = (typeof UNITS)[number];

const DECIMALS: Readonly<Record<Unit, number>> = { count: 3, tokens: 3, seconds: 3, cents: 6 };

export const MINOR_A_UNIT: Readonly<Record<Unit, number>> = {
  count: 1_000,
  tokens: 1_000,
  seconds: 1_000,
  cents: 1_000_000,
};

/** The largest amount of a unit, in minor units. Up to it, a double can represent every minor unit. */
export const amountMinorMax: Readonly<Record<Unit, number>> = {
  count: 8_796_093_022_208_000,
  tokens: 8_796_093_022_208_000,
  seconds: 8_796_093_022_208_000,
  cents: 8_589_934_592_000_000,
};

/** Returns the rule that a given amount of a unit breaks, for a message that begins with the amount's name (C1). */
export function amountRule(unit: Unit, amount: number): string {
  const max = fromMinor(unit, amountMinorMax[unit] as Minor);
  // `anyNumber` also reads a number with too many digits as infinite.
  if (amount === Infinity) return `${amountMaxRule(unit)}, with at most ${DECIMALS[unit]} decimals`;
  if (amount === -Infinity) return `must be at least -${max} (\`${unit}\`), with at most ${DECIMALS[unit]} decimals`;
  if (amount > max) return amountMaxRule(unit);
  if (amount < -max) return `must be at least -${max} (\`${unit}\`)`;
  return `must have at most ${DECIMALS[unit]} decimals (\`${unit}\`): round it first`;
}

/** Returns the rule for a used quantity, which may have any number of decimals. */
export function amountMaxRule(unit: Unit): string {
  return `must be at most ${fromMinor(unit, amountMinorMax[unit] as Minor)} (\`${unit}\`)`;
}

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

/** A decimal of any size: `digits` * 10^`exponent`. `digits` neither begins nor ends with a 0, and is empty for 0. */
interface Decimal {
  readonly isNegative: boolean;
  readonly digits: string;
  readonly exponent: number;
}

function readDecimal(text: string): Decimal | null {
  const parts = NUMBER.exec(text);
  if (parts === null) return null; // NaN and the infinities
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = parts;
  const all = `${whole}${fraction}`;
  let end = all.length;
  while (all.charAt(end - 1) === "0") end--;
  const digits = all.slice(0, end).replace(/^0+/, "");
  return { isNegative: sign === "-", digits, exponent: Number(exponent) - fraction.length + all.length - end };
}

/** Returns digits * 10^shift, or null above `max`. Zeros are counted first, because `shift` may be huge. */
function wholeWithin(max: bigint, digits: string, shift: number): bigint | null {
  if (digits === "") return 0n;
  if (digits.length + shift > String(max).length) return null;
  const whole = BigInt(digits.padEnd(digits.length + shift, "0"));
  return whole > max ? null : whole;
}

/**
 * Returns a given amount in minor units of its unit, exactly the number's shortest decimal. Null when it has more decimals than the unit,
 * or its absolute value is above `amountMinorMax`.
 */
export function toMinor(unit: Unit, amount: number): Minor | null {
  const decimal = readDecimal(String(amount));
  if (decimal === null) return null;
  const shift = DECIMALS[unit] + decimal.exponent;
  if (shift < 0 && decimal.digits !== "") return null;
  const minor = wholeWithin(BigInt(amountMinorMax[unit]), decimal.digits, shift);
  return minor === null ? null : (Number(decimal.isNegative ? -minor : minor) as Minor);
}

/** A double has at least 15 significant digits. Later digits are often noise, as in 0.1 + 0.2. */
const SIGNIFICANT_DIGITS = 15;

/**
 * Returns a used quantity in minor units (C1). A decimal that is no whole number of minor units is rounded to 15 significant digits, and then up
 * to a minor unit. Null for a negative decimal, or above `amountMinorMax`.
 */
export function usedMinor(unit: Unit, text: string): { readonly minor: Minor; readonly isRounded: boolean } | null {
  const used = usedWhole(text, DECIMALS[unit], BigInt(amountMinorMax[unit]));
  return used && { minor: Number(used.whole) as Minor, isRounded: used.isRounded };
}

const METER_DECIMALS = 3;
/** Meters are kept in thousandths. */
export const METER_MINOR_A_UNIT = 1_000n;
const METER_MAX = 2n ** 53n * METER_MINOR_A_UNIT;

/** Returns a meter in thousandths, rounded as a used quantity is (PR3). Null for a negative decimal, or above 2^53. */
export const meterOf = (text: string): bigint | null => readMeter(text)?.whole ?? null;

/** The same, with whether it had to be rounded. */
export const readMeter = (text: string) => usedWhole(text, METER_DECIMALS, METER_MAX);

function usedWhole(text: string, decimals: number, max: bigint) {
  const decimal = readDecimal(text);
  if (decimal === null) return null;
  const { digits, exponent } = decimal;
  if (decimal.isNegative && digits !== "") return null;
  const shift = decimals + exponent;
  const isRounded = shift < 0 && digits !== "";
  const whole = isRounded ? roundedUp(max, digits, shift) : wholeWithin(max, digits, shift);
  return whole === null ? null : { whole, isRounded };
}

function roundedUp(max: bigint, digits: string, shift: number): bigint | null {
  const extra = Math.max(0, digits.length - SIGNIFICANT_DIGITS);
  const isHalfOrMore = extra > 0 && digits.charAt(SIGNIFICANT_DIGITS) >= "5";
  const significant = BigInt(digits.slice(0, SIGNIFICANT_DIGITS)) + (isHalfOrMore ? 1n : 0n);
  const left = shift + extra;
  if (left >= 0) return wholeWithin(max, `${significant}`, left);
  // More than 16 decimals below a minor unit, the quantity is less than one.
  const divisor = 10n ** BigInt(Math.min(-left, SIGNIFICANT_DIGITS + 1));
  return wholeWithin(max, `${ceilDivide(significant, divisor)}`, 0);
}

/** Returns a number of 0 or more as a fraction, exactly its shortest decimal. Null for others. */
export function toFraction(amount: number): Fraction | null {
  const decimal = readDecimal(String(amount));
  if (decimal === null || (decimal.isNegative && decimal.digits !== "")) return null;
  const { digits, exponent } = decimal;
  return digits === "" ? ZERO : fraction(BigInt(digits) * powerOf10(exponent), powerOf10(-exponent));
}

const powerOf10 = (exponent: number): bigint => 10n ** BigInt(Math.max(0, exponent));

const PRICE_DECIMALS = 12;

/** Returns an amount of a price list (PR2). Null if it is below 0, or has more than 12 decimals or 15 significant digits. */
export function priceAmount(amount: number): Fraction | null {
  const decimal = readDecimal(String(amount));
  const isFine = decimal !== null && decimal.digits.length <= SIGNIFICANT_DIGITS && decimal.exponent >= -PRICE_DECIMALS;
  return isFine || amount === 0 ? toFraction(amount) : null;
}

/** Divides two positive numbers and rounds up. */
export const ceilDivide = (dividend: bigint, divisor: bigint): bigint => (dividend + divisor - 1n) / divisor;

/** Returns the amount in its unit: the double nearest to minor units / 10^decimals. It prints as exactly that decimal. */
export function fromMinor(unit: Unit, minor: Minor): number {
  return minor / MINOR_A_UNIT[unit];
}

/** Does the same as `fromMinor` for a sum of any size. Returns the nearest double. */
export const amountOfMinor = (unit: Unit, minor: bigint): number => Number(decimalOfMinor(unit, minor));

/** Returns a sum of any size for a response. JSON writes it with all its digits, even if a double cannot represent them. */
export const exactAmount = (unit: Unit, minor: bigint): number => {
  const decimal = decimalOfMinor(unit, minor).replace(/\.?0+$/, "");
  // If a double cannot represent the number, `parseJson` returns a raw JSON value. Only JSON.stringify reads it.
  return parseJson(decimal) as number;
};

/** Returns the nearest double of an amount that `exactAmount` returned, to compute with. 0 if there is none. */
export const doubleOf = (amount: number | undefined): number => numberValue(amount) ?? 0;

/** Returns the minor units of an amount that `exactAmount` returned. */
export function minorOfExact(unit: Unit, amount: number): bigint {
  const [whole = "0", decimals = ""] = (numberText(amount) ?? "0").split(".");
  return BigInt(`${whole}${decimals.padEnd(DECIMALS[unit], "0")}`);
}

function decimalOfMinor(unit: Unit, minor: bigint): string {
  const sign = minor < 0n ? "-" : "";
  const digits = (minor < 0n ? -minor : minor).toString().padStart(DECIMALS[unit] + 1, "0");
  return `${sign}${digits.slice(0, -DECIMALS[unit])}.${digits.slice(-DECIMALS[unit])}`;
}

/** Amounts in minor units, by unit. An absent unit, or an amount of 0, means that the event does not have the unit. */
export type Quantities = { readonly [U in Unit]?: Minor } & {
  /** The request named quantities, and all of them are 0. No balance pays for it, not even for its implied `count` of 1 (U1). */
  readonly isFree?: true;
};

/** Amounts by unit, in the form of the API. */
export type UnitAmounts = { readonly [U in Unit]?: number | undefined };

/** Returns quantities in the form of the API. Absent units stay absent. */
export function presentQuantities(quantities: Quantities): { [U in Unit]?: number } {
  const presented: { [U in Unit]?: number } = {};
  for (const unit of UNITS) {
    const minor = quantities[unit];
    if (minor !== undefined) presented[unit] = fromMinor(unit, minor);
  }
  return presented;
}
