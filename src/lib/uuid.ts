import { DIGITS } from "./base62.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The UUID in lower case. Null if the text is not a UUID. */
export function parseUuid(text: string): string | null {
  const lower = text.toLowerCase();
  return UUID.test(lower) ? lower : null;
}

/** A version 4 UUID from the random bits of `newId("")`. */
export function uuidOf(randomId: string): string {
  let bits = 0n;
  for (const character of randomId) bits = bits * 62n + BigInt(DIGITS.indexOf(character));
  const hex = bits.toString(16).padStart(32, "0").slice(-32);
  const variant = "89ab".charAt(Number.parseInt(hex.charAt(16), 16) % 4);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20)}`;
}
