import { DIGITS } from "../lib/encoding.ts";

const LENGTH = 22;

/** The stable id of a person (P9). It is computed from the environment and the requested id, and not stored. */
export async function personIdOf(environmentId: number, distinctId: string): Promise<string> {
  const bytes = new TextEncoder().encode(`person ${environmentId} ${distinctId}`);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  let bits = digest.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  let text = "";
  while (text.length < LENGTH) {
    text += DIGITS.charAt(Number(bits % 62n));
    bits /= 62n;
  }
  return `per_${text}`;
}
