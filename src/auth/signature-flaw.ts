import { type CompactVerifyGetKey, compactVerify, createLocalJWKSet, errors, type JWK } from "jose";
import { isJsonObject } from "../lib/json.ts";
import type { TokenFlaw } from "./token-flaw.ts";

/** Asymmetric algorithms alone: a published key must never verify as a shared secret. */
const ASYMMETRIC = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];

export const isAsymmetric = (alg: string): boolean => ASYMMETRIC.includes(alg);

export type PublishedKeys = CompactVerifyGetKey;

/** The keys of one answer of a key server. What is no key is passed over (RFC 7517, section 5). */
export const publishedKeysOf = (keys: readonly unknown[]): PublishedKeys =>
  createLocalJWKSet({ keys: keys.filter((key): key is JWK => isJsonObject(key)) });

/** What is wrong with the signature by a shared secret; null where the secret made it. */
export async function secretFlaw(token: string, secret: string): Promise<TokenFlaw | null> {
  return flawOf(compactVerify(token, new TextEncoder().encode(secret), { algorithms: ["HS256"] }));
}

/** What is wrong with the signature by published keys. A token that names no key may be signed by any that fits its algorithm. */
export async function keysFlaw(token: string, keys: PublishedKeys): Promise<TokenFlaw | null> {
  const options = { algorithms: ASYMMETRIC };
  try {
    await compactVerify(token, keys, options);
    return null;
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) return flawOf(Promise.reject(error));
    let flaw: TokenFlaw = "no_key";
    for await (const key of error) {
      const ofKey = await flawOf(compactVerify(token, key, options));
      if (ofKey === null) return null;
      if (ofKey === "signature") flaw = ofKey;
    }
    return flaw;
  }
}

/** The flaw that jose's error tells. A key that cannot be imported, is private or is too short is no key. */
async function flawOf(verifying: Promise<unknown>): Promise<TokenFlaw | null> {
  try {
    await verifying;
    return null;
  } catch (error) {
    if (error instanceof errors.JWSSignatureVerificationFailed) return "signature";
    if (error instanceof errors.JOSEAlgNotAllowed) return "algorithm";
    return error instanceof errors.JWSInvalid ? "malformed" : "no_key";
  }
}
