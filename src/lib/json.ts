/** JSON with all of its digits, so that writing it again gives the same value. */
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

/** `JSON.parse` in which `read` reads each number from its digits. */
export function parseNumbers(text: string, read: (digits: string, value: number) => unknown): unknown {
  return sourceJson.parse(text, (_key, value, { source }) =>
    typeof value === "number" && source !== undefined ? read(source, value) : value,
  );
}

/** A number that a double may not represent: many digits, an exponent, a negative zero. A match in a string only costs time. */
const MAYBE_LOSSY = /\d[\d.]{15,}|\d[eE][+-]?\d|-0\b/;

/**
 * Parses JSON. A number that a double would round, such as 2^53 + 1 or 1e400, becomes a raw value, which `JSON.stringify` writes
 * with the same digits. Throws what `JSON.parse` throws.
 */
export function parseJson(text: string): unknown {
  if (!MAYBE_LOSSY.test(text)) return JSON.parse(text);
  return parseNumbers(text, (digits, value) => (String(value) === digits ? value : sourceJson.rawJSON(digits)));
}

/** The digits of a number, as they were sent. Null if the value is not a number. */
export function numberText(value: unknown): string | null {
  if (typeof value === "number") return String(value);
  return sourceJson.isRawJSON(value) ? value.rawJSON : null;
}

/** A number as a double. Null if the value is not a number. */
export function numberValue(value: unknown): number | null {
  const text = numberText(value);
  return text === null ? null : Number(text);
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !sourceJson.isRawJSON(value);
}

/** The object's own value of `key`, never one of its prototype. */
export function own(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Whether objects and lists are nested deeper than `levelsMax`. */
export function isNestedDeeperThan(value: unknown, levelsMax: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levelsMax === 0) return true;
  return Object.values(value).some((inner) => isNestedDeeperThan(inner, levelsMax - 1));
}

const encoder = new TextEncoder();

/**
 * Splits a list into JSON lists of at most `bytesMax` bytes each, because D1 takes strings of at most 2 MB. An element that is
 * larger has a list of its own.
 */
export function jsonChunks(list: readonly unknown[], bytesMax = 900_000): string[] {
  const chunks: string[] = [];
  let parts: string[] = [];
  let bytes = 0;
  for (const element of list) {
    const part = JSON.stringify(element);
    const partBytes = encoder.encode(part).length + 1;
    if (parts.length > 0 && bytes + partBytes > bytesMax) {
      chunks.push(`[${parts.join()}]`);
      parts = [];
      bytes = 0;
    }
    parts.push(part);
    bytes += partBytes;
  }
  if (parts.length > 0) chunks.push(`[${parts.join()}]`);
  return chunks;
}
