/** Digits of base62, by value. */
export const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LENGTH = 22;
/** The largest multiple of 62 in a byte: bytes from here on are thrown away, so that every digit is as likely. */
const FAIR = 248;

/** `prefix` and 22 random characters of base62, 131 bits: no look-alike escapes, selectable by a double click. */
export function randomId(prefix: string): string {
  let text = "";
  while (text.length < LENGTH) {
    for (const byte of crypto.getRandomValues(new Uint8Array(LENGTH + 4))) {
      if (byte < FAIR && text.length < LENGTH) text += base62.charAt(byte % base62.length);
    }
  }
  return prefix + text;
}
