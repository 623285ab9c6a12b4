import { encodeBase64url } from "./encoding.ts";

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
