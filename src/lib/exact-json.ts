/**
 * JSON whose numbers can be checked by their own digits. A number that a double cannot represent, such as 1.0000000000000001,
 * is read as a symbol with these digits as its description. Every other value is as JSON.parse reads it.
 */
import { parseNumbers } from "./json.ts";

/** More than 15 digits, or an exponent of three. A double has all other numbers. A match in a string only costs time. */
const MAYBE_ROUNDED = /(?:^|[:,[\s])-?(?:\d[\d.]{15}|[\d.]+[eE][+-]?\d{3})/;

/** The digits of a decimal from the first to the last that is not 0. Two near decimals are equal if these are. */
function significantDigits(decimal: string): string {
  const digits = decimal
    .replace(/[eE].*$/s, "")
    .replace(/^[+-]?[0.]*/, "")
    .replace(".", "");
  let end = digits.length;
  while (digits.charAt(end - 1) === "0") end--;
  return digits.slice(0, end);
}

/** The number of a decimal, or a symbol if a double cannot represent it. */
export function exactNumber(decimal: string): number | symbol {
  const value = Number(decimal);
  if (!Number.isFinite(value) || significantDigits(String(value)) === significantDigits(decimal)) return value;
  return Symbol(decimal);
}

/**
 * Throws what `JSON.parse` throws. At about two thousand levels the stack is too small to check digits. Then numbers are read as
 * JSON.parse reads them, and the value is refused later for its depth.
 */
export function parseExactJson(text: string): unknown {
  if (!MAYBE_ROUNDED.test(text)) return JSON.parse(text);
  try {
    return parseNumbers(text, exactNumber);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return JSON.parse(text);
  }
}

/** Replaces symbols by the nearest doubles, in place. Nothing else may use `value`. Recursive. */
export function roundNumbers(value: object): void {
  // The members of an object or a list, of any type.
  const members = value as Record<string, unknown>;
  for (const key of Object.keys(members)) {
    const member = members[key];
    if (typeof member === "symbol") members[key] = Number(member.description);
    else if (typeof member === "object" && member !== null) roundNumbers(member);
  }
}
