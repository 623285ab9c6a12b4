import {
  createRemoteJWKSet,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  type JWTVerifyOptions,
  jwtVerify,
} from "jose";
import { type PurserError, temporarilyUnavailable } from "../errors.ts";

/** Asymmetric algorithms alone: a published key must never verify as a shared secret. */
const ALGORITHMS = [
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

/** Key sets of this isolate, by URL. Each may be fetched anew for an unknown key a few times a minute. */
const keySets = new Map<string, KeySet>();
const KEY_SETS_MAX = 200;
const RELOADS_A_MINUTE_MAX = 5;
/** Keys that were fetched this long ago are fetched anew for a signature of none of them. */
const SIGNATURES_RELOAD_AFTER_MS = 30_000;

interface KeySet {
  readonly remote: ReturnType<typeof createRemoteJWKSet>;
  fetchedAtMs: number;
  minuteStartMs: number;
  reloads: number;
}

/**
 * The claims of a token that one of the keys published at `url` signed. Throws what jose throws of a token that does not
 * verify, and `temporarily_unavailable` when the key server cannot be reached.
 */
export async function verifyByPublishedKeys(
  url: string,
  token: string,
  options: JWTVerifyOptions,
  nowMs: number,
): Promise<JWTPayload> {
  const keySet = keySetOf(url, nowMs);
  const verify = () => verifyBySet(keySet, token, { ...options, algorithms: ALGORITHMS }, nowMs);
  try {
    return await verify();
  } catch (error) {
    if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
    if (nowMs - keySet.fetchedAtMs < SIGNATURES_RELOAD_AFTER_MS || !takeReload(keySet, nowMs)) throw error;
  }
  // The key may have been exchanged under its own kid, or have none to tell it from the one before.
  await reload(keySet, nowMs);
  return verify();
}

async function verifyBySet(
  keySet: KeySet,
  token: string,
  options: JWTVerifyOptions,
  nowMs: number,
): Promise<JWTPayload> {
  try {
    return (await jwtVerify(token, keyFinder(keySet, nowMs), options)).payload;
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    return verifyWithAny(error, token, options);
  }
}

/** Of a token that names no key, any of the keys that fit its algorithm may be the one. */
async function verifyWithAny(
  candidates: errors.JWKSMultipleMatchingKeys,
  token: string,
  options: JWTVerifyOptions,
): Promise<JWTPayload> {
  for await (const key of candidates) {
    try {
      return (await jwtVerify(token, key, options)).payload;
    } catch (error) {
      if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
    }
  }
  throw new errors.JWSSignatureVerificationFailed();
}

function keySetOf(url: string, nowMs: number): KeySet {
  const existing = keySets.get(url);
  if (existing !== undefined) return existing;
  if (keySets.size >= KEY_SETS_MAX) keySets.clear();
  // jose's own cool-down would refuse the first token after a rotation: it is never over, and `keyFinder` reloads.
  const remote = createRemoteJWKSet(new URL(url), { timeoutDuration: 5_000, cooldownDuration: Infinity });
  const created = { remote, fetchedAtMs: nowMs, minuteStartMs: 0, reloads: 0 };
  keySets.set(url, created);
  return created;
}

function keyFinder(keySet: KeySet, nowMs: number): JWTVerifyGetKey {
  const find: JWTVerifyGetKey = async (header, token) => {
    try {
      return await keySet.remote(header, token);
    } catch (error) {
      throw isTokenFault(error) ? error : keyServerFault(error);
    }
  };
  return async (header, token) => {
    try {
      return await find(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || !takeReload(keySet, nowMs)) throw error;
    }
    // Keys are rotated at any moment, also right after they were fetched.
    await reload(keySet, nowMs);
    return find(header, token);
  };
}

/** Takes one of the minute's reloads; false when none is left, so that made-up keys do not hammer the server. */
function takeReload(keySet: KeySet, nowMs: number): boolean {
  if (nowMs - keySet.minuteStartMs >= 60_000) Object.assign(keySet, { minuteStartMs: nowMs, reloads: 0 });
  if (keySet.reloads >= RELOADS_A_MINUTE_MAX) return false;
  keySet.reloads++;
  return true;
}

async function reload(keySet: KeySet, nowMs: number): Promise<void> {
  try {
    await keySet.remote.reload();
  } catch (error) {
    throw keyServerFault(error);
  }
  keySet.fetchedAtMs = nowMs;
}

/** What a token alone can cause: the set does not say which key is meant, or has no use for the algorithm. */
function isTokenFault(error: unknown): boolean {
  return (
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWKSMultipleMatchingKeys ||
    error instanceof errors.JOSENotSupported
  );
}

function keyServerFault(error: unknown): PurserError {
  const message = "The application's key server cannot be reached; try again.";
  return temporarilyUnavailable(message, error, "key_server_unreachable");
}
