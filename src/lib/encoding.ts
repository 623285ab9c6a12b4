/** The digits of base62, in the order of their values. */
export const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Writes a whole number in base62, without leading zeros. */
export function toBase62(value: number): string {
  let text = "";
  for (let rest = value; rest > 0 || text === ""; rest = Math.floor(rest / 62)) text = DIGITS.charAt(rest % 62) + text;
  return text;
}

/** Parses base62 digits. Returns NaN for other characters, and for a number that a double cannot represent exactly. */
export function fromBase62(text: string): number {
  let value = 0;
  for (const character of text) {
    const digit = DIGITS.indexOf(character);
    if (digit === -1) return Number.NaN;
    value = value * 62 + digit;
  }
  return text !== "" && Number.isSafeInteger(value) ? value : Number.NaN;
}

/** Encodes bytes as base64url without padding (RFC 4648, section 5). */
export function encodeBase64url(bytes: Uint8Array): string {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return base64urlOfAscii(binary);
}

/** Encodes ASCII text as base64url without padding. */
export function base64urlOfAscii(text: string): string {
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/**
 * Decodes canonical base64url only: text that encodes to the same characters again. Returns null for padding, white space, other
 * alphabets and unused low bits (a 32-byte value has four spellings of its last character).
 */
export function decodeBase64url(text: string): Uint8Array | null {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) return null;
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  return encodeBase64url(bytes) === text ? bytes : null;
}

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? 0xedb88320 ^ (crc >>> 1) : crc >>> 1;
  return crc;
});

/** Returns the CRC-32 of ASCII text (ISO 3309, as in zip). It detects every single mistyped character. It is not a signature. */
export function crc32(ascii: string): number {
  let crc = 0xffffffff;
  for (let index = 0; index < ascii.length; index++) {
    crc = (table[(crc ^ ascii.charCodeAt(index)) & 0xff] ?? 0) ^ (crc >>> 8);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

const encoder = new TextEncoder();

export type Utf8 = Uint8Array<ArrayBuffer>;

/** Encodes a text as UTF-8. */
export function utf8(text: string): Utf8 {
  // An encoder never returns shared memory, although its type allows it.
  return encoder.encode(text) as Utf8;
}

/** Returns how many bytes well-formed text takes in UTF-8. */
export function utf8Length(text: string): number {
  let length = text.length;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    // A surrogate pair takes four bytes, so each half counts for two.
    if (code >= 0x80) length += code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 1 : 2;
  }
  return length;
}
