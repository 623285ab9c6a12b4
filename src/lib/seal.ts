import { decodeBase64url, encodeBase64url } from "./encoding.ts";

const SEALED_FORM = /^v1\.([\w-]{8})\.([\w-]{16})\.([\w-]+)$/;
/** A pattern that finds the sealed texts within a text. */
export const SEALED_TEXT_PATTERN = /v1\.[\w-]{8}\.[\w-]{16}\.[\w-]+/g;
const IV_BYTES = 12;
const KEY_ID_BYTES = 6;

interface SealKey {
  readonly key: CryptoKey;
  readonly ivKey: CryptoKey;
  /** Identifies the secret in a sealed text without revealing it. */
  readonly id: string;
}

/** The derived keys of this isolate. It stores no promises, because one request must not wait for another's. */
const keys = new Map<string, SealKey>();
const KEYS_MAX = 4;

const bytesOf = (text: string) => new TextEncoder().encode(text);

async function sealKey(secret: string): Promise<SealKey> {
  const cached = keys.get(secret);
  if (cached !== undefined) return cached;
  const base = await crypto.subtle.importKey("raw", bytesOf(secret), "HKDF", false, ["deriveKey", "deriveBits"]);
  const derivation = (use: string) => ({
    name: "HKDF",
    hash: "SHA-256",
    salt: new Uint8Array(),
    info: bytesOf(`purser ${use}`),
  });
  const aes = { name: "AES-GCM", length: 256 };
  const hmac = { name: "HMAC", hash: "SHA-256", length: 256 };
  const derived = {
    key: await crypto.subtle.deriveKey(derivation("seal"), base, aes, false, ["encrypt", "decrypt"]),
    ivKey: await crypto.subtle.deriveKey(derivation("seal iv"), base, hmac, false, ["sign"]),
    id: encodeBase64url(new Uint8Array(await crypto.subtle.deriveBits(derivation("seal id"), base, KEY_ID_BYTES * 8))),
  };
  if (keys.size >= KEYS_MAX) keys.clear();
  keys.set(secret, derived);
  return derived;
}

/**
 * Encrypts a text with AES-256-GCM under a key derived from the secret. Only the same `context` decrypts it. The nonce is an HMAC
 * of the context and the text. So equal texts have equal results, and different texts have different nonces.
 */
export async function sealText(secret: string, context: string, text: string): Promise<string> {
  const { key, ivKey, id } = await sealKey(secret);
  const mac = await crypto.subtle.sign("HMAC", ivKey, bytesOf(JSON.stringify([context, text])));
  const iv = new Uint8Array(mac).slice(0, IV_BYTES);
  const algorithm = { name: "AES-GCM", iv, additionalData: bytesOf(context) };
  const sealed = await crypto.subtle.encrypt(algorithm, key, bytesOf(text));
  return `v1.${id}.${encodeBase64url(iv)}.${encodeBase64url(new Uint8Array(sealed))}`;
}

/** Returns the prefix of every text that this secret sealed. */
export const readSealPrefix = async (secret: string): Promise<string> => `v1.${(await sealKey(secret)).id}.`;

/** Decrypts a sealed text. Returns null when none of the secrets sealed it under this context. */
export async function openSealed(secrets: readonly string[], context: string, sealed: string): Promise<string | null> {
  const [, id, iv = "", body = ""] = SEALED_FORM.exec(sealed) ?? [];
  const [ivBytes, bodyBytes] = [decodeBase64url(iv), decodeBase64url(body)];
  if (ivBytes === null || bodyBytes === null) return null;
  for (const secret of secrets) {
    const { key, id: keyId } = await sealKey(secret);
    if (keyId !== id) continue;
    const algorithm = { name: "AES-GCM", iv: ivBytes, additionalData: bytesOf(context) };
    const text = await crypto.subtle.decrypt(algorithm, key, bodyBytes).catch(() => null);
    if (text !== null) return new TextDecoder().decode(text);
  }
  return null;
}
