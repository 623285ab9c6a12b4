/** Signs tokens with every algorithm, and verifies them with Purser and with jose. */

import { createLocalJWKSet, errors, type JSONWebKeySet, type JWK, type JWTPayload, jwtVerify } from "jose";
import { vi } from "vitest";
import { verifyToken } from "../../src/auth/end-user.ts";
import type { EndUserSetting } from "../../src/auth/end-user-setting.ts";
import { PurserError } from "../../src/errors.ts";
import { encodeBase64url, utf8 } from "../../src/lib/encoding.ts";
import { END_USER_SECRET } from "./end-user-setting.ts";

const NOW_MS = Date.parse("2026-11-22T12:00:00.400Z");
export const NOW = Math.floor(NOW_MS / 1_000);
const BOUNDS = { issuer: "https://auth.example.com", audience: "desk" };
export const GOOD = { sub: "ana", iss: BOUNDS.issuer, aud: "desk", exp: NOW + 600 };

const rsa = (name: string, bits: number) => ({ name, hash: `SHA-${bits}`, saltLength: bits / 8 });
const ecdsa = (namedCurve: string, bits: number) => ({ name: "ECDSA", namedCurve, hash: `SHA-${bits}` });
export const SIGNING: Readonly<Record<string, SubtleCryptoImportKeyAlgorithm & SubtleCryptoSignAlgorithm>> = {
  RS256: rsa("RSASSA-PKCS1-v1_5", 256),
  RS384: rsa("RSASSA-PKCS1-v1_5", 384),
  RS512: rsa("RSASSA-PKCS1-v1_5", 512),
  PS256: rsa("RSA-PSS", 256),
  PS384: rsa("RSA-PSS", 384),
  PS512: rsa("RSA-PSS", 512),
  ES256: ecdsa("P-256", 256),
  ES384: ecdsa("P-384", 384),
  ES512: ecdsa("P-521", 512),
  EdDSA: { name: "Ed25519" },
  Ed25519: { name: "Ed25519" },
  HS256: { name: "HMAC", hash: "SHA-256" },
  HS512: { name: "HMAC", hash: "SHA-512" },
};
export const ASYMMETRIC = Object.keys(SIGNING).filter((alg) => !alg.startsWith("HS"));

interface KeyPair {
  readonly privateJwk: JsonWebKey;
  readonly publicJwk: JWK;
}

export async function makePair(alg: string, modulusLength = 2_048): Promise<KeyPair> {
  const usages = ["sign", "verify"];
  const parameters = { ...SIGNING[alg], modulusLength, publicExponent: Uint8Array.of(1, 0, 1) };
  const pair = (await crypto.subtle.generateKey(parameters as { name: string }, true, usages)) as CryptoKeyPair;
  const privateJwk = (await crypto.subtle.exportKey("jwk", pair.privateKey)) as JsonWebKey;
  const { kty, crv, n, e, x, y } = privateJwk;
  // WebCrypto names one algorithm and use; an RSA key may have several.
  const { alg: _, key_ops: __, ...forAny } = privateJwk;
  return { privateJwk: forAny, publicJwk: { kty, crv, n, e, x, y } as JWK };
}

/** One key pair for all algorithms of a kind, because creating an RSA key is slow. */
const pairs = new Map<string, Promise<KeyPair>>();
export function pairFor(alg: string, name = ""): Promise<KeyPair> {
  const kind = `${/^[RP]S/.test(alg) ? "RSA" : alg} ${name}`;
  const pair = pairs.get(kind) ?? makePair(alg);
  pairs.set(kind, pair);
  return pair;
}

export const part = (text: string): string => encodeBase64url(utf8(text));

/** Signs any text, even one that no library would sign. */
export async function sign(
  alg: string,
  key: JsonWebKey | Uint8Array,
  header: string,
  payload: string,
): Promise<string> {
  const signed = `${part(header)}.${part(payload)}`;
  const [algorithm, form] = [SIGNING[alg] ?? { name: "" }, key instanceof Uint8Array ? "raw" : "jwk"];
  const imported = await crypto.subtle.importKey(form, key, algorithm, false, ["sign"]);
  return `${signed}.${encodeBase64url(new Uint8Array(await crypto.subtle.sign(algorithm, imported, utf8(signed))))}`;
}

let publishedKeys: readonly unknown[] = [];
/** Serves the published keys. Call it before each test. */
export function mockKeyServer(): void {
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json({ keys: publishedKeys }));
}

export const hs256: EndUserSetting = { type: "hs256", secret: END_USER_SECRET, ...BOUNDS };

/** Publishes keys. Returns a setting that uses them, and an isolate that has not fetched them. */
export function publish(keys: readonly unknown[]): { setting: EndUserSetting; isolate: object } {
  publishedKeys = keys;
  return { setting: { type: "jwks", url: `https://keys.example/${crypto.randomUUID()}`, ...BOUNDS }, isolate: {} };
}

/** Purser's result: the accepted claims, or the reason of the rejection. */
export async function judge(setting: EndUserSetting, token: string, isolate = {}): Promise<object | string> {
  try {
    return await verifyToken({ isolate, now: () => NOW_MS }, setting, token);
  } catch (error) {
    if (!(error instanceof PurserError)) throw error;
    return (error.details as { reason: string }).reason;
  }
}

/** The result of jose: the accepted claims, or null. */
export async function judgeByJose(
  setting: EndUserSetting,
  keys: readonly unknown[],
  token: string,
): Promise<object | null> {
  const options = { ...BOUNDS, clockTolerance: 60, currentDate: new Date(NOW_MS), requiredClaims: ["exp"] };
  try {
    if (setting.type === "hs256") {
      return (await jwtVerify(token, utf8(setting.secret), { ...options, algorithms: ["HS256"] })).payload;
    }
    const find = createLocalJWKSet({ keys } as JSONWebKeySet);
    const ofSet = { ...options, algorithms: ASYMMETRIC };
    const one = await jwtVerify(token, find, ofSet).catch((error: unknown) => error);
    if (!(one instanceof errors.JWKSMultipleMatchingKeys)) {
      if (one instanceof Error) throw one;
      return (one as { payload: JWTPayload }).payload;
    }
    for await (const key of one) {
      const found = await jwtVerify(token, key, ofSet).catch(() => null);
      if (found !== null) return found.payload;
    }
    return null;
  } catch {
    return null;
  }
}
