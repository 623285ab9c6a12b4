/** Digits of base62, by value. */
export const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** A whole number in base62, without leading zeros. */
export function toBase62(value: number): string {
  let text = "";
  for (let rest = value; rest > 0 || text === ""; rest = Math.floor(rest / 62)) text = DIGITS.charAt(rest % 62) + text;
  return text;
}

/** The whole number of base62 digits. NaN for other characters, and for a number that a double cannot represent exactly. */
export function fromBase62(text: string): number {
  let value = 0;
  for (const character of text) {
    const digit = DIGITS.indexOf(character);
    if (digit === -1) return Number.NaN;
    value = value * 62 + digit;
  }
  return text !== "" && Number.isSafeInteger(value) ? value : Number.NaN;
}
