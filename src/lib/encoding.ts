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

const crcTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? 0xedb88320 ^ (crc >>> 1) : crc >>> 1;
  return crc;
});

/** The CRC-32 before the first character. */
export const CRC_START = -1;

/** Adds a part of an ASCII text to a CRC-32, which is inverted until `finishCrc` returns it. */
export function addToCrc(start: number, text: string, from: number, to: number): number {
  let crc = start;
  for (let at = from; at < to; at++) crc = (crcTable[(crc ^ text.charCodeAt(at)) & 0xff] ?? 0) ^ (crc >>> 8);
  return crc;
}

/** Returns the CRC-32 of the characters that were added. */
export const finishCrc = (crc: number): number => ~crc >>> 0;

/** Returns the CRC-32 of ASCII text (ISO 3309, as in zip). It detects every single mistyped character. It is not a signature. */
export const crc32 = (ascii: string): number => finishCrc(addToCrc(CRC_START, ascii, 0, ascii.length));

const encoder = new TextEncoder();

export type Utf8 = Uint8Array<ArrayBuffer>;

/** Encodes a text as UTF-8. */
export function utf8(text: string): Utf8 {
  // An encoder never returns shared memory, although its type allows it.
  return encoder.encode(text) as Utf8;
}

const DECODED_PIECE_BYTES = 64 * 1024;

/**
 * Decodes UTF-8 without its byte order mark. Returns null for other bytes, because a lenient decoder could turn two ids into one. The
 * runtime decodes ASCII fastest at once, and other text in pieces.
 */
export function textOfUtf8(bytes: Uint8Array): string | null {
  const pieceBytes = isAscii(bytes) ? bytes.length : DECODED_PIECE_BYTES;
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });
  let [text, at] = ["", 0];
  try {
    for (; at + pieceBytes < bytes.length; at += pieceBytes) {
      text += decoder.decode(bytes.subarray(at, at + pieceBytes), { stream: true });
    }
    return text + decoder.decode(bytes.subarray(at));
  } catch {
    return null;
  }
}

function isAscii(bytes: Uint8Array): boolean {
  for (let at = 0; at < bytes.length; at++) if ((bytes[at] ?? 0) >= 0x80) return false;
  return true;
}

/** Most measured texts are shorter. For them a loop is faster than the runtime's encoder. */
const LOOP_CHARACTERS_MAX = 200;
const measured = new Uint8Array(64 * 1024);

/** Returns how many bytes well-formed text takes in UTF-8. */
export function utf8Length(text: string): number {
  if (text.length > LOOP_CHARACTERS_MAX) return encodedLength(text);
  let length = text.length;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    // A surrogate pair takes four bytes, so each half counts for two.
    if (code >= 0x80) length += code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 1 : 2;
  }
  return length;
}

function encodedLength(text: string): number {
  let length = 0;
  for (let at = 0; at < text.length; ) {
    const { read, written } = encoder.encodeInto(at === 0 ? text : text.slice(at), measured);
    length += written;
    at += read;
  }
  return length;
}

/** Returns the SHA-256 of the text's UTF-8 bytes, as base64url. */
export async function sha256(text: string): Promise<string> {
  return encodeBase64url(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
}

/** Compares two secrets in constant time, even if their lengths differ. */
export async function equalSecrets(a: string, b: string): Promise<boolean> {
  const digest = async (text: string) => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const [left, right] = await Promise.all([digest(a), digest(b)]);
  return crypto.subtle.timingSafeEqual(left, right);
}

async function importKey(secret: string, usage: "sign" | "verify"): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", new TextEncoder().encode(secret), { name: "HMAC", hash: "SHA-256" }, false, [
    usage,
  ]);
}

/** Returns the HMAC-SHA-256 of bytes, or of a text's UTF-8 bytes, keyed with the secret's UTF-8 bytes. */
export async function signHmac(secret: string, signed: string | BufferSource): Promise<Uint8Array> {
  const bytes = typeof signed === "string" ? new TextEncoder().encode(signed) : signed;
  return new Uint8Array(await crypto.subtle.sign("HMAC", await importKey(secret, "sign"), bytes));
}

/** Returns whether `mac` is the HMAC-SHA-256 of `text` under `secret`. Compares in constant time. */
export async function verifyHmac(secret: string, text: string, mac: Uint8Array): Promise<boolean> {
  return crypto.subtle.verify("HMAC", await importKey(secret, "verify"), mac, new TextEncoder().encode(text));
}

type CsvValue = string | number | null;

/** Returns whether a spreadsheet would read the text as a formula. A `+` before digits alone is a telephone number. */
const isFormula = (text: string): boolean => /^[=+\-@\t\r]/.test(text) && !/^\+\d+$/.test(text);

/** Returns a cell. Text is in quotes. A number has all its digits and no thousands separators. */
function csvCell(value: CsvValue, isRaw: boolean): string {
  if (value === null) return "";
  if (typeof value !== "string") return JSON.stringify(value);
  const text = !isRaw && isFormula(value) ? `'${value}` : value;
  return `"${text.replaceAll('"', '""')}"`;
}

/**
 * Returns a CSV file. It begins with a byte order mark, without which spreadsheets do not read UTF-8. An apostrophe before a text
 * stops a spreadsheet from reading it as a formula; `isRaw` leaves it out, for other programs.
 */
export function csvText(
  head: readonly string[],
  rows: readonly (readonly CsvValue[])[],
  { isRaw = false }: { readonly isRaw?: boolean } = {},
): string {
  const lines = rows.map((row) => row.map((value) => csvCell(value, isRaw)).join(","));
  return `\ufeff${[head.join(","), ...lines].map((line) => `${line}\r\n`).join("")}`;
}
