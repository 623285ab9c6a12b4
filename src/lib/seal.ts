import { decodeBase64url, encodeBase64url } from "./encoding.ts";

const FORM = /^v1\.([\w-]{8})\.([\w-]{16})\.([\w-]+)$/;
/** The sealed texts in a text. */
export const sealedTexts = /v1\.[\w-]{8}\.[\w-]{16}\.[\w-]+/g;
const IV_BYTES = 12;
const KEY_ID_BYTES = 6;

interface SealKey {
  readonly key: CryptoKey;
  readonly ivKey: CryptoKey;
  /** Tells which secret sealed a text, and nothing of it. */
  readonly id: string;
}

/** Derived keys of this isolate. Never a promise: one request may not wait for another's. */
const keys = new Map<string, SealKey>();
const KEYS_MAX = 4;

const bytesOf = (text: string) => new TextEncoder().encode(text);

async function keyOf(secret: string): Promise<SealKey> {
  const known = keys.get(secret);
  if (known !== undefined) return known;
  const base = await crypto.subtle.importKey("raw", bytesOf(secret), "HKDF", false, ["deriveKey", "deriveBits"]);
  const derivation = (use: string) => ({
    name: "HKDF",
    hash: "SHA-256",
    salt: new Uint8Array(),
    info: bytesOf(`purser ${use}`),
  });
  const aes = { name: "AES-GCM", length: 256 };
  const hmac = { name: "HMAC", hash: "SHA-256", length: 256 };
  const made = {
    key: await crypto.subtle.deriveKey(derivation("seal"), base, aes, false, ["encrypt", "decrypt"]),
    ivKey: await crypto.subtle.deriveKey(derivation("seal iv"), base, hmac, false, ["sign"]),
    id: encodeBase64url(new Uint8Array(await crypto.subtle.deriveBits(derivation("seal id"), base, KEY_ID_BYTES * 8))),
  };
  if (keys.size >= KEYS_MAX) keys.clear();
  keys.set(secret, made);
  return made;
}

/**
 * Encrypts a text by AES-256-GCM with a key derived from the secret. It opens under the same `context` alone. The nonce is an
 * HMAC of context and text: the same text is sealed alike, so that storing it again changes nothing, and no other has its nonce.
 */
export async function sealText(secret: string, context: string, text: string): Promise<string> {
  const { key, ivKey, id } = await keyOf(secret);
  const mac = await crypto.subtle.sign("HMAC", ivKey, bytesOf(JSON.stringify([context, text])));
  const iv = new Uint8Array(mac).slice(0, IV_BYTES);
  const algorithm = { name: "AES-GCM", iv, additionalData: bytesOf(context) };
  const sealed = await crypto.subtle.encrypt(algorithm, key, bytesOf(text));
  return `v1.${id}.${encodeBase64url(iv)}.${encodeBase64url(new Uint8Array(sealed))}`;
}

/** How every text begins that this secret sealed. */
export const sealMarkOf = async (secret: string): Promise<string> => `v1.${(await keyOf(secret)).id}.`;

/** The text that one of the secrets sealed under this context. Null when none did. */
export async function openSealed(secrets: readonly string[], context: string, sealed: string): Promise<string | null> {
  const [, id, iv = "", body = ""] = FORM.exec(sealed) ?? [];
  const [ivBytes, bodyBytes] = [decodeBase64url(iv), decodeBase64url(body)];
  if (ivBytes === null || bodyBytes === null) return null;
  for (const secret of secrets) {
    const own = await keyOf(secret);
    if (own.id !== id) continue;
    const algorithm = { name: "AES-GCM", iv: ivBytes, additionalData: bytesOf(context) };
    const text = await crypto.subtle.decrypt(algorithm, own.key, bodyBytes).catch(() => null);
    if (text !== null) return new TextDecoder().decode(text);
  }
  return null;
}
