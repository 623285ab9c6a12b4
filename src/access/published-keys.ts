import { isJsonObject, type JsonObject } from "../lib/json.ts";
import { utf8 } from "../lib/utf8.ts";
import type { Jwt } from "./jwt.ts";

/** One algorithm of RFC 7518 and RFC 8037: which keys it takes, and how WebCrypto calls it. */
interface Algorithm {
  readonly kty: string;
  readonly crv?: string;
  readonly key: SubtleCryptoImportKeyAlgorithm;
  readonly signature: SubtleCryptoSignAlgorithm;
}

const RSA_BITS_MIN = 2_048;

function rsa(name: string, bits: number): Algorithm {
  const key = { name, hash: `SHA-${bits}` };
  return { kty: "RSA", key, signature: { ...key, saltLength: bits / 8 } };
}

function ecdsa(crv: string, bits: number): Algorithm {
  const name = "ECDSA";
  return { kty: "EC", crv, key: { name, namedCurve: crv }, signature: { name, hash: `SHA-${bits}` } };
}

const ed25519: Algorithm = { kty: "OKP", crv: "Ed25519", key: { name: "Ed25519" }, signature: { name: "Ed25519" } };

/** Asymmetric algorithms alone: a published key must never verify as a shared secret. */
const ALGORITHMS: ReadonlyMap<string, Algorithm> = new Map([
  ["RS256", rsa("RSASSA-PKCS1-v1_5", 256)],
  ["RS384", rsa("RSASSA-PKCS1-v1_5", 384)],
  ["RS512", rsa("RSASSA-PKCS1-v1_5", 512)],
  ["PS256", rsa("RSA-PSS", 256)],
  ["PS384", rsa("RSA-PSS", 384)],
  ["PS512", rsa("RSA-PSS", 512)],
  ["ES256", ecdsa("P-256", 256)],
  ["ES384", ecdsa("P-384", 384)],
  ["ES512", ecdsa("P-521", 512)],
  ["EdDSA", ed25519],
  ["Ed25519", ed25519],
]);

export const isAsymmetric = (alg: string): boolean => ALGORITHMS.has(alg);

/** Whether a published key (RFC 7517) is for verifying tokens of this algorithm, and the one that the token names. */
function isFor(jwk: JsonObject, { alg, kid }: Jwt, { kty, crv }: Algorithm): boolean {
  const { use, key_ops: operations } = jwk;
  if (kid !== undefined && (typeof kid !== "string" || jwk.kid !== kid)) return false;
  if (jwk.kty !== kty || (crv !== undefined && jwk.crv !== crv)) return false;
  if (jwk.alg !== undefined && jwk.alg !== alg) return false;
  if (use !== undefined && use !== "sig") return false;
  // Whoever publishes a private key has lost it.
  if (jwk.d !== undefined) return false;
  if (operations === undefined) return true;
  return Array.isArray(operations) && operations.length === 1 && operations[0] === "verify";
}

/** Null for a key that cannot be used: malformed, or an RSA key that is too short. */
async function importKey({ kty, crv, n, e, x, y }: JsonObject, { key }: Algorithm): Promise<CryptoKey | null> {
  try {
    // WebCrypto refuses what is missing or of another type, so the type is no claim of ours.
    const jwk = { kty, crv, n, e, x, y } as JsonWebKey;
    const imported = await crypto.subtle.importKey("jwk", jwk, key, false, ["verify"]);
    const { modulusLength = 0 } = imported.algorithm as Partial<CryptoKeyRsaKeyAlgorithm>;
    return kty === "RSA" && modulusLength < RSA_BITS_MIN ? null : imported;
  } catch {
    return null;
  }
}

/** The keys of one answer of a key server. What is no key, or of a kind that is not known, is passed over (RFC 7517, section 5). */
export class PublishedKeys {
  readonly #jwks: readonly JsonObject[];
  readonly #imported = new Map<string, CryptoKey | null>();

  constructor(jwks: readonly unknown[]) {
    this.#jwks = jwks.filter(isJsonObject);
  }

  /**
   * What is wrong with a token's signature; null where one of the keys made it. A token that names no key may be signed by any
   * that fits its algorithm.
   */
  async flawOf(jwt: Jwt): Promise<"algorithm" | "no_key" | "signature" | null> {
    const algorithm = ALGORITHMS.get(jwt.alg);
    if (algorithm === undefined) return "algorithm";
    let flaw: "no_key" | "signature" = "no_key";
    for (const [at, jwk] of this.#jwks.entries()) {
      if (!isFor(jwk, jwt, algorithm)) continue;
      const key = await this.#import(at, jwk, jwt.alg, algorithm);
      if (key === null) continue;
      if (await isSignedBy(key, jwt, algorithm)) return null;
      flaw = "signature";
    }
    return flaw;
  }

  async #import(at: number, jwk: JsonObject, alg: string, algorithm: Algorithm): Promise<CryptoKey | null> {
    const name = `${at} ${alg}`;
    const known = this.#imported.get(name);
    if (known !== undefined) return known;
    const key = await importKey(jwk, algorithm);
    this.#imported.set(name, key);
    return key;
  }
}

async function isSignedBy(key: CryptoKey, { signature, signed }: Jwt, algorithm: Algorithm): Promise<boolean> {
  try {
    return await crypto.subtle.verify(algorithm.signature, key, signature, utf8(signed));
  } catch {
    // WebCrypto throws where a signature has not the form of one.
    return false;
  }
}
