import { encodeBase64url } from "./base64url.ts";

/** SHA-256 of the text's UTF-8 bytes, base64url. */
export async function sha256(text: string): Promise<string> {
  return encodeBase64url(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
}

/** Compares two secrets in constant time, also if their lengths differ. */
export async function equalSecrets(a: string, b: string): Promise<boolean> {
  const digest = async (text: string) => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const [left, right] = await Promise.all([digest(a), digest(b)]);
  return crypto.subtle.timingSafeEqual(left, right);
}
