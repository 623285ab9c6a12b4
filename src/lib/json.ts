/** A JSON object whose numbers keep all their digits, so that writing it again gives the same value. */
export interface JsonObject {
  readonly [key: string]: unknown;
}

interface SourceJson {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  rawJSON(text: string): object;
  isRawJSON(value: unknown): value is { readonly rawJSON: string };
}
// V8 has these methods, but TypeScript's library does not declare them yet.
const sourceJson = JSON as unknown as SourceJson;

/** Parses JSON and passes the digits of each number to `read`, which returns the value to use. */
function parseNumbers(text: string, read: (digits: string, value: number) => unknown): unknown {
  return sourceJson.parse(text, (_key, value, { source }) =>
    typeof value === "number" && source !== undefined ? read(source, value) : value,
  );
}

/**
 * Matches numbers that a double may not represent: many digits, an exponent, a negative zero. A match inside a string only costs
 * time.
 */
const MAYBE_LOSSY = /\d[\d.]{15,}|\d[eE][+-]?\d|-0\b/;

/**
 * Parses JSON. A number that a double would round, such as 2^53 + 1 or 1e400, becomes a raw value, which `JSON.stringify` writes
 * with the same digits. Throws the errors of `JSON.parse`.
 */
export function parseJson(text: string): unknown {
  if (!MAYBE_LOSSY.test(text)) return JSON.parse(text);
  return parseNumbers(text, (digits, value) => (String(value) === digits ? value : sourceJson.rawJSON(digits)));
}

/** Returns the digits of a number as they were sent, or null if the value is not a number. */
export function numberText(value: unknown): string | null {
  if (typeof value === "number") return String(value);
  return sourceJson.isRawJSON(value) ? value.rawJSON : null;
}

/** Returns a number as a double, or null if the value is not a number. */
export function numberValue(value: unknown): number | null {
  const text = numberText(value);
  return text === null ? null : Number(text);
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !sourceJson.isRawJSON(value);
}

/** Returns the object's own value of `key`, never a value of its prototype. */
export function ownValue(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Returns whether objects and lists are nested deeper than `levelsMax`. */
export function isNestedDeeperThan(value: unknown, levelsMax: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levelsMax === 0) return true;
  return Object.values(value).some((inner) => isNestedDeeperThan(inner, levelsMax - 1));
}

const jsonEncoder = new TextEncoder();

/**
 * Splits a list into JSON lists of at most `bytesMax` bytes each, because D1 takes strings of at most 2 MB. A larger element
 * gets a list of its own.
 */
export function jsonChunks(list: readonly unknown[], bytesMax = 900_000): string[] {
  const chunks: string[] = [];
  let parts: string[] = [];
  // `partBytes` counts each element with the comma or bracket that follows it. The opening bracket is counted here.
  let bytes = 1;
  for (const element of list) {
    const part = JSON.stringify(element);
    const partBytes = jsonEncoder.encode(part).length + 1;
    if (parts.length > 0 && bytes + partBytes > bytesMax) {
      chunks.push(`[${parts.join()}]`);
      parts = [];
      bytes = 1;
    }
    parts.push(part);
    bytes += partBytes;
  }
  if (parts.length > 0) chunks.push(`[${parts.join()}]`);
  return chunks;
}

/**
 * The functions below parse JSON so that numbers can be checked by their digits. A number that a double cannot represent, such
 * as 1.0000000000000001, becomes a symbol with these digits as its description. All other values are read as by JSON.parse.
 */

/**
 * Matches more than 15 digits, or a three-digit exponent. A double represents all other numbers. A match inside a string only
 * costs time.
 */
const MAYBE_ROUNDED = /(?:^|[:,[\s])-?(?:\d[\d.]{15}|[\d.]+[eE][+-]?\d{3})/;

/**
 * Returns the digits of a decimal from the first to the last that is not 0. Two close decimals are equal if these digits are.
 */
function significantDigits(decimal: string): string {
  const digits = decimal
    .replace(/[eE].*$/s, "")
    .replace(/^[+-]?[0.]*/, "")
    .replace(".", "");
  let end = digits.length;
  while (digits.charAt(end - 1) === "0") end--;
  return digits.slice(0, end);
}

/** Returns the number of a decimal, or a symbol if a double cannot represent it. */
export function exactNumber(decimal: string): number | symbol {
  const value = Number(decimal);
  if (!Number.isFinite(value) || significantDigits(String(value)) === significantDigits(decimal)) return value;
  return Symbol(decimal);
}

/**
 * Parses JSON with exact numbers and throws the errors of `JSON.parse`. At about two thousand levels of nesting the stack is too
 * small to check digits. JSON.parse then reads the numbers, and a later check refuses the value for its depth.
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

/** Replaces symbols by the nearest doubles, in place. The caller must be the only user of `value`. Recursive. */
export function roundNumbers(value: object): void {
  // The members of an object or a list, of any type.
  const members = value as Record<string, unknown>;
  for (const key of Object.keys(members)) {
    const member = members[key];
    if (typeof member === "symbol") members[key] = Number(member.description);
    else if (typeof member === "object" && member !== null) roundNumbers(member);
  }
}

/**
 * Returns the same text for every spelling of a JSON value: sorts keys by code unit and omits undefined members. Recursive:
 * check a caller's value with `isNestedDeeperThan` first.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`);
  return `{${members.join(",")}}`;
}

/** Returns whether every number is finite. JSON.parse reads 1e999 as infinity, which would be written as null. Recursive. */
export function isFiniteJson(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  return typeof value !== "object" || value === null || Object.values(value).every(isFiniteJson);
}
