/**
 * JSON whose numbers can be judged by their own digits. A number that its double does not tell, such as
 * 1.0000000000000001, is read as a symbol that describes itself by those digits; every other value is JSON.parse's.
 */
import { parseNumbers } from "./json.ts";

/** More than 15 digits, or an exponent of three: a double tells all other numbers. Found in a string it costs time alone. */
const MAYBE_ROUNDED = /(?:^|[:,[\s])-?(?:\d[\d.]{15}|[\d.]+[eE][+-]?\d{3})/;

/** The digits of a decimal from its first to its last that is not 0: two that are near each other agree in no other way. */
function significantDigits(decimal: string): string {
  const digits = decimal
    .replace(/[eE].*$/s, "")
    .replace(/^[+-]?[0.]*/, "")
    .replace(".", "");
  let end = digits.length;
  while (digits.charAt(end - 1) === "0") end--;
  return digits.slice(0, end);
}

/** The number that a decimal says, or a symbol for one that its double does not tell. */
export function exactNumber(decimal: string): number | symbol {
  const value = Number(decimal);
  if (!Number.isFinite(value) || significantDigits(String(value)) === significantDigits(decimal)) return value;
  return Symbol(decimal);
}

/**
 * Throws what `JSON.parse` throws. Beyond some two thousand levels, where no value of ours goes and the look at digits runs
 * out of stack, numbers are read as JSON.parse reads them, so that what is nested so deep is refused for that alone.
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

/** Puts the nearest doubles where symbols stand, in place: `value` must be nobody else's. Recursive. */
export function roundNumbers(value: object): void {
  // An object's or a list's own members, whatever they are.
  const members = value as Record<string, unknown>;
  for (const key of Object.keys(members)) {
    const member = members[key];
    if (typeof member === "symbol") members[key] = Number(member.description);
    else if (typeof member === "object" && member !== null) roundNumbers(member);
  }
}
