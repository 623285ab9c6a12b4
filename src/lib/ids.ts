import { DIGITS } from "./base62.ts";

const LENGTH = 22;
/** The largest multiple of 62 in a byte: bytes from here on are thrown away, so that every digit is as likely. */
const FAIR = 248;

/** Random bytes are asked for many at a time: each asking costs more than a hundred of them. */
const pool = new Uint8Array(1_024);
let taken = pool.length;

function randomByte(): number {
  if (taken === pool.length) {
    crypto.getRandomValues(pool);
    taken = 0;
  }
  return pool[taken++] ?? FAIR;
}

/** `prefix` and 22 random characters of base62, 131 bits: no look-alike escapes, selectable by a double click. */
export function randomId(prefix: string): string {
  let text = "";
  while (text.length < LENGTH) {
    const byte = randomByte();
    if (byte < FAIR) text += DIGITS.charAt(byte % DIGITS.length);
  }
  return prefix + text;
}
