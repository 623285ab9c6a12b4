import { utf8Length } from "./encoding.ts";

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
 * Matches numbers that a double may not represent: 16 digits or more, an exponent, a negative zero. A match inside a string only
 * costs time.
 */
const MAYBE_LOSSY = /(?:^|[:,[\s])(?:-?(?:\d[\d.]{15}|[\d.]+[eE])|-0(?:\.0*)?(?![\d.]))/;

/** Returns whether `parseJson` must look at every number of the text, which takes several times longer. */
export const mayRoundNumbers = (text: string): boolean => MAYBE_LOSSY.test(text);

/**
 * Parses JSON. A number that a double would round, such as 2^53 + 1 or 1e400, becomes a raw value, which `JSON.stringify` writes
 * with the same digits. Throws the errors of `JSON.parse`.
 */
export function parseJson(text: string): unknown {
  if (!mayRoundNumbers(text)) return JSON.parse(text);
  return parseNumbers(text, (digits, value) => (isExact(digits, value) ? value : sourceJson.rawJSON(digits)));
}

/** Returns whether JSON.stringify writes a number of the same value. */
function isExact(digits: string, value: number): boolean {
  const text = JSON.stringify(value);
  return text === digits || (!digits.startsWith("-0") && significantDigits(text) === significantDigits(digits));
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
  if (typeof value !== "object" || value === null || sourceJson.isRawJSON(value)) return false;
  if (levelsMax === 0) return true;
  return Object.values(value).some((inner) => isNestedDeeperThan(inner, levelsMax - 1));
}

/** The size of the value of a JSON text. */
export interface JsonSize {
  /** The members of objects and the elements of lists, at all levels. */
  readonly values: number;
  readonly containers: number;
  /** How deeply objects and lists are nested. */
  readonly levels: number;
  /** The escapes in names and strings. */
  readonly escapes: number;
}

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const isOpening = (code: number): boolean => code === 0x7b || code === 0x5b;
const isClosing = (code: number): boolean => code === 0x7d || code === 0x5d;

/**
 * Measures a JSON text in UTF-8 without parsing it, because JSON.parse may take a hundred times the text's size in memory. Takes linear
 * time. If the text is not JSON, the result is some size.
 */
export function measureJson(bytes: Uint8Array): JsonSize {
  let [commas, containers, levels, escapes] = [0, 0, 0, 0];
  let level = 0;
  let isInString = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0;
    if (byte === QUOTE) isInString = !isInString;
    else if (isInString) {
      if (byte !== BACKSLASH) continue;
      escapes++;
      at++;
    } else if (byte === COMMA) commas++;
    else if (isOpening(byte)) {
      containers++;
      if (++level > levels) levels = level;
    } else if (isClosing(byte)) level--;
  }
  return { values: commas + containers, containers, levels, escapes };
}

/** Returns the index of the first element of a list that is not JSON. Null when the text is no list. Takes linear time. */
export function brokenElement(text: string): number | null {
  const start = text.length - text.trimStart().length;
  if (text.charAt(start) !== "[") return null;
  let [index, elementStart, level] = [0, start + 1, 0];
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (isOpening(code)) level++;
    else if (isClosing(code)) level--;
    const isEnd = level === 0;
    if (!isEnd && (level > 1 || code !== COMMA)) continue;
    const element = text.slice(elementStart, at);
    if (!isJson(element)) return isEnd && index === 0 && element.trim() === "" ? null : index;
    if (isEnd) return null;
    index++;
    elementStart = at + 1;
  }
  return index;
}

/** Returns the position of the quote that ends the string at `start`, or the end of the text. */
function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1;
  return at;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Returns the JSON of a text. JSON.stringify is slow for short texts. */
export const quoted = (text: string): string => (PLAIN_TEXT.test(text) ? `"${text}"` : JSON.stringify(text));
const PLAIN_TEXT = /^[\w $.@:+-]*$/;

/** Returns the JSON of a list of texts and numbers, and of one more element, which is JSON already. */
export const writeJsonList = (values: readonly (string | number)[], last: string): string =>
  `[${values.map((value) => (typeof value === "string" ? quoted(value) : value)).join()},${last}]`;

const CHUNK_BYTES = 900_000;

/**
 * Splits a list into JSON lists of at most `bytesMax` bytes each, because D1 takes strings of at most 2 MB. A larger element
 * gets a list of its own.
 */
export function jsonChunks(list: readonly unknown[], bytesMax = CHUNK_BYTES): string[] {
  if (list.length === 0) return [];
  const text = JSON.stringify(list);
  if (list.length === 1 || utf8Length(text) <= bytesMax) return [text];
  const half = Math.ceil(list.length / 2);
  return [...jsonChunks(list.slice(0, half), bytesMax), ...jsonChunks(list.slice(half), bytesMax)];
}

/** Does the same as `jsonChunks` for elements that are JSON already. */
export function chunkJson(list: readonly string[], bytesMax = CHUNK_BYTES): string[] {
  const chunks: string[] = [];
  let parts: string[] = [];
  // `partBytes` counts each element with the comma or bracket that follows it. The opening bracket is counted here.
  let bytes = 1;
  for (const part of list) {
    const partBytes = utf8Length(part) + 1;
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
 * small to check digits. JSON.parse then reads the numbers, and a later check rejects the value for its depth.
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

/**
 * Replaces symbols by the nearest doubles, in place. Returns whether all numbers are finite, because a double cannot represent 1e999.
 * The caller must be the only user of `value`. Recursive: check a caller's value with `isNestedDeeperThan` first.
 */
export function roundNumbers(value: object): boolean {
  // The members of an object or a list, of any type.
  const members = value as Record<string, unknown>;
  let areFinite = true;
  for (const key of Object.keys(members)) {
    const member = members[key];
    if (typeof member === "object" && member !== null) areFinite = roundNumbers(member) && areFinite;
    if (typeof member === "symbol") members[key] = Number(member.description);
    if (typeof members[key] === "number") areFinite = Number.isFinite(members[key]) && areFinite;
  }
  return areFinite;
}

/**
 * Returns the same text for every spelling of a JSON value: sorts keys by code unit and omits undefined members. Recursive:
 * check a caller's value with `isNestedDeeperThan` first.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value === "string") return quoted(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  // The members of an object, of any type. `sort` compares code units.
  const members = value as Record<string, unknown>;
  let text = "";
  for (const key of Object.keys(members).sort()) {
    const member = members[key];
    if (member !== undefined) text += `${text === "" ? "" : ","}${quoted(key)}:${canonicalJson(member)}`;
  }
  return `{${text}}`;
}
