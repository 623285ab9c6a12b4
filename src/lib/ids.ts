import { DIGITS, fromBase62 } from "./encoding.ts";

const LENGTH = 22;
/**
 * The largest multiple of 62 that fits in a byte. Bytes from this value on are skipped, so that every digit is equally
 * likely.
 */
const SKIPPED_FROM = 248;

/** A pool of random bytes, requested together because one request costs more than a hundred bytes. */
const pool = new Uint8Array(1_024);
let usedBytes = pool.length;

function randomByte(): number {
  if (usedBytes === pool.length) {
    crypto.getRandomValues(pool);
    usedBytes = 0;
  }
  return pool[usedBytes++] ?? SKIPPED_FROM;
}

/** Returns `prefix` and 22 random characters of base62: 131 bits. The id needs no escapes, and a double click selects it. */
export function randomId(prefix: string): string {
  let text = "";
  while (text.length < LENGTH) {
    const byte = randomByte();
    if (byte < SKIPPED_FROM) text += DIGITS.charAt(byte % DIGITS.length);
  }
  return prefix + text;
}

const UUID_FORM = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Returns the UUID in lower case, or null if the text is not a UUID. */
export function parseUuid(text: string): string | null {
  const lower = text.toLowerCase();
  return UUID_FORM.test(lower) ? lower : null;
}

const NODE_VALUES = 2 ** 48;

/**
 * Returns a function that makes version 4 UUIDs from random bits of `newId("")`. They differ in their last 48 bits, which are counted
 * from a random number, because random bits for each of thousands of UUIDs take much time.
 */
export function uuidsFrom(id: string): () => string {
  // Doubles represent eight digits of base62 exactly, and are faster than a BigInt.
  const parts = [id.slice(0, 8), id.slice(8, 15), id.slice(15)];
  const hex = parts.map((part) => fromBase62(part).toString(16).padStart(11, "0").slice(-11)).join("");
  const variant = "89ab".charAt(Number.parseInt(hex.charAt(16), 16) % 4);
  const head = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-`;
  let node = Number.parseInt(hex.slice(20, 32), 16);
  return () => {
    node = (node + 1) % NODE_VALUES;
    return head + node.toString(16).padStart(12, "0");
  };
}
