import {
  createLocalJWKSet,
  errors,
  type JSONWebKeySet,
  type JWTPayload,
  type JWTVerifyGetKey,
  type JWTVerifyOptions,
  jwtVerify,
} from "jose";
import { type PurserError, temporarilyUnavailable } from "../errors.ts";
import type { Runtime } from "../runtime.ts";
import { type FetchedKeySet, fetchKeySet, fetchMsMax, keySetFreshMs } from "./fetch-key-set.ts";

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

const KEY_SETS_MAX = 200;
const RELOADS_A_MINUTE_MAX = 5;
/** So many failures of a key server, and it is not asked for the rest of the minute. */
const FAILURES_A_MINUTE_MAX = 5;
const LOOK_EVERY_MS = 20;
/** Keys that were fetched this long ago are fetched anew for a signature of none of them. */
const SIGNATURES_RELOAD_AFTER_MS = 30_000;

/** What happened so often in the minute that began at `startMs`. */
class Minute {
  #startMs = 0;
  #count = 0;

  count(nowMs: number): number {
    if (nowMs - this.#startMs >= 60_000) this.#count = 0;
    return this.#count;
  }

  add(nowMs: number): void {
    if (this.count(nowMs) === 0) this.#startMs = nowMs;
    this.#count++;
  }
}

/** The keys of one URL, as this isolate knows them. */
class KeySet {
  readonly #url: string;
  readonly #reloads = new Minute();
  readonly #failures = new Minute();
  #find: ReturnType<typeof createLocalJWKSet> | null = null;
  #fetchedAtMs = 0;
  /** The number of requests that fetch the keys now. */
  #fetching = 0;

  constructor(url: string) {
    this.#url = url;
  }

  /** Finds the keys that a token's header names, among those that are known or, where none are, published. */
  finder(nowMs: number): JWTVerifyGetKey {
    return async (header, token) => {
      const find = this.#find ?? (await this.#load(nowMs, false));
      try {
        return await find(header, token);
      } catch (error) {
        // Keys are rotated at any moment, also right after they were fetched.
        if (!(error instanceof errors.JWKSNoMatchingKey) || !this.#takeReload(nowMs)) throw error;
      }
      return (await this.#load(nowMs, true))(header, token);
    };
  }

  /** Fetches the keys anew for a signature of none of them; false when that was done a moment ago. */
  async reloadForSignature(nowMs: number): Promise<boolean> {
    if (nowMs - this.#fetchedAtMs < SIGNATURES_RELOAD_AFTER_MS || !this.#takeReload(nowMs)) return false;
    await this.#load(nowMs, true);
    return true;
  }

  /** Forgets keys that are too old to trust. */
  expire(nowMs: number): void {
    if (nowMs - this.#fetchedAtMs >= keySetFreshMs) this.#find = null;
  }

  /** Takes one of the minute's reloads; false when none is left, so that made-up keys do not hammer the server. */
  #takeReload(nowMs: number): boolean {
    if (this.#reloads.count(nowMs) >= RELOADS_A_MINUTE_MAX) return false;
    this.#reloads.add(nowMs);
    return true;
  }

  /** A request that its client cancelled never says that its fetch ended, so the wait has an end. */
  async #waitForOthers(): Promise<void> {
    for (let waitedMs = 0; this.#fetching >= FAILURES_A_MINUTE_MAX; waitedMs += LOOK_EVERY_MS) {
      if (waitedMs >= fetchMsMax) this.#fetching = 0;
      else await scheduler.wait(LOOK_EVERY_MS);
    }
  }

  /**
   * Requests cannot await each other's fetch on Workers. So when as many fetch already as may fail, others look now and then for
   * what was found: a server that hangs is asked no more often than one that is down.
   */
  async #load(nowMs: number, isAnew: boolean): Promise<ReturnType<typeof createLocalJWKSet>> {
    await this.#waitForOthers();
    if (!isAnew && this.#find !== null) return this.#find;
    if (this.#failures.count(nowMs) >= FAILURES_A_MINUTE_MAX) throw keyServerFault("It failed a moment ago.");
    let fetched: FetchedKeySet;
    let find: ReturnType<typeof createLocalJWKSet>;
    this.#fetching++;
    try {
      fetched = await fetchKeySet(this.#url, nowMs, isAnew);
      // Throws for what is no set of keys; what is in one is judged when it is used.
      find = createLocalJWKSet(fetched.keys as JSONWebKeySet);
    } catch (error) {
      this.#failures.add(nowMs);
      throw keyServerFault(error);
    } finally {
      this.#fetching = Math.max(0, this.#fetching - 1);
    }
    if (fetched.fetchedAtMs < this.#fetchedAtMs) return find;
    this.#find = find;
    this.#fetchedAtMs = fetched.fetchedAtMs;
    return find;
  }
}

/** Key sets of each isolate, by URL. */
const keySets = new WeakMap<object, Map<string, KeySet>>();

function keySetOf({ isolate }: Pick<Runtime, "isolate">, url: string): KeySet {
  const sets = keySets.get(isolate) ?? new Map<string, KeySet>();
  keySets.set(isolate, sets);
  if (sets.size >= KEY_SETS_MAX && !sets.has(url)) sets.clear();
  const keySet = sets.get(url) ?? new KeySet(url);
  sets.set(url, keySet);
  return keySet;
}

/**
 * The claims of a token that one of the keys published at `url` signed. Throws what jose throws of a token that does not
 * verify, and `temporarily_unavailable` when the key server cannot be reached, or answers what is no set of keys.
 */
export async function verifyByPublishedKeys(
  runtime: Pick<Runtime, "isolate" | "now">,
  url: string,
  token: string,
  options: JWTVerifyOptions,
): Promise<JWTPayload> {
  const nowMs = runtime.now();
  const keySet = keySetOf(runtime, url);
  keySet.expire(nowMs);
  const verify = () => verifyBySet(keySet.finder(nowMs), token, { ...options, algorithms: ALGORITHMS });
  try {
    return await verify();
  } catch (error) {
    if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
    // The key may have been exchanged under its own kid, or have none to tell it from the one before.
    if (!(await keySet.reloadForSignature(nowMs))) throw error;
  }
  return verify();
}

async function verifyBySet(find: JWTVerifyGetKey, token: string, options: JWTVerifyOptions): Promise<JWTPayload> {
  try {
    return (await jwtVerify(token, find, options)).payload;
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

function keyServerFault(cause: unknown): PurserError {
  const message = "The application's key server cannot be reached; try again.";
  return temporarilyUnavailable(message, cause, "key_server_unreachable");
}
