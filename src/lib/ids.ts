/** Digits of base62, by value. */
export const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BITS = 128;
const LENGTH = 22;

/** `prefix` and 128 random bits as 22 characters of base62: no look-alike escapes, selectable by a double click. */
export function randomId(prefix: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(BITS / 8));
  let value = bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  let text = "";
  for (let index = 0; index < LENGTH; index++) {
    text = base62.charAt(Number(value % 62n)) + text;
    value /= 62n;
  }
  return prefix + text;
}
