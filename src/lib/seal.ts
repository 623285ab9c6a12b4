import { decodeBase64url, encodeBase64url } from "./encoding.ts";

const SEALED_FORM = /^v1\.([\w-]{8})\.([\w-]{16})\.([\w-]+)$/;
/** A pattern that finds the sealed texts within a text. */
export const sealedTexts = /v1\.[\w-]{8}\.[\w-]{16}\.[\w-]+/g;
const IV_BYTES = 12;
const KEY_ID_BYTES = 6;

interface SealKey {
  readonly key: CryptoKey;
  readonly ivKey: CryptoKey;
  /** Tells which secret sealed a text, and reveals nothing about the secret. */
  readonly id: string;
}

/** The derived keys of this isolate. It stores no promises, because one request must not wait for another's. */
const keys = new Map<string, SealKey>();
const KEYS_MAX = 4;

const bytesOf = (text: string) => new TextEncoder().encode(text);

async function sealKey(secret: string): Promise<SealKey> {
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
 * Encrypts a text with AES-256-GCM under a key derived from the secret. Only the same `context` opens it. The nonce is an HMAC
 * of context and text: equal texts seal to equal results, so storing one again changes nothing, and different texts have
 * different nonces.
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
export const sealMarkOf = async (secret: string): Promise<string> => `v1.${(await sealKey(secret)).id}.`;

/** Returns the text that one of the secrets sealed under this context, or null when none did. */
export async function openSealed(secrets: readonly string[], context: string, sealed: string): Promise<string | null> {
  const [, id, iv = "", body = ""] = SEALED_FORM.exec(sealed) ?? [];
  const [ivBytes, bodyBytes] = [decodeBase64url(iv), decodeBase64url(body)];
  if (ivBytes === null || bodyBytes === null) return null;
  for (const secret of secrets) {
    const own = await sealKey(secret);
    if (own.id !== id) continue;
    const algorithm = { name: "AES-GCM", iv: ivBytes, additionalData: bytesOf(context) };
    const text = await crypto.subtle.decrypt(algorithm, own.key, bodyBytes).catch(() => null);
    if (text !== null) return new TextDecoder().decode(text);
  }
  return null;
}
