import { type PurserError, temporarilyUnavailable } from "../errors.ts";
import { rememberPerObject } from "../lib/bounded-memory.ts";
import type { Runtime } from "../runtime.ts";
import { checkByKeys, isAsymmetric, type PublishedKeys, parsePublishedKeys, type TokenRejection } from "./jwt.ts";

const KEY_SETS_MAX = 200;
const RELOADS_A_MINUTE_MAX = 5;
/** After this many failures of a key server, Purser does not ask it for the rest of the minute. */
const KEY_SERVER_FAILURES_MAX = 5;
const FETCH_POLL_EVERY_MS = 20;
/** When no key matches a signature, keys of at least this age are fetched again. */
const SIGNATURES_RELOAD_AFTER_MS = 30_000;

/** Counts events within a minute, which begins with the first event. */
class EventCounter {
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

/**
 * The keys of one URL in this isolate. jose's `createRemoteJWKSet` is not used: it does not share keys through the platform's
 * cache, and it does not limit requests to a server that fails.
 */
class KeySet {
  readonly #url: string;
  readonly #reloads = new EventCounter();
  readonly #failures = new EventCounter();
  #keys: PublishedKeys | null = null;
  #fetchedAtMs = 0;
  /** How many requests are fetching the keys now. */
  #fetchCount = 0;

  constructor(url: string) {
    this.#url = url;
  }

  /** Returns the rejection of a token's signature, or null when one of the keys made it. */
  async readRejection(token: string, nowMs: number): Promise<TokenRejection | null> {
    const rejection = await checkByKeys(token, this.#keys ?? (await this.#load(nowMs, false)));
    if (rejection === null || !this.#takeReload(rejection, nowMs)) return rejection;
    return checkByKeys(token, await this.#load(nowMs, true));
  }

  /** Forgets keys that are too old to trust. */
  expire(nowMs: number): void {
    if (nowMs - this.#fetchedAtMs >= KEY_SET_FRESH_MS) this.#keys = null;
  }

  /**
   * Uses one of the minute's reloads. Returns false when none is left, so that tokens with invented keys do not flood the
   * server. Keys may rotate at any moment, even right after they were fetched. A new key may have the `kid` of the old key,
   * or no `kid`.
   */
  #takeReload(rejection: TokenRejection, nowMs: number): boolean {
    if (rejection === "signature" && nowMs - this.#fetchedAtMs < SIGNATURES_RELOAD_AFTER_MS) return false;
    if (this.#reloads.count(nowMs) >= RELOADS_A_MINUTE_MAX) return false;
    this.#reloads.add(nowMs);
    return true;
  }

  /** Waits for the fetches of other requests. Stops after some time, because a cancelled request never decreases the count. */
  async #waitForOthers(): Promise<void> {
    for (let waitedMs = 0; this.#fetchCount >= KEY_SERVER_FAILURES_MAX; waitedMs += FETCH_POLL_EVERY_MS) {
      if (waitedMs >= KEY_SERVER_MS_MAX) this.#fetchCount = 0;
      else await scheduler.wait(FETCH_POLL_EVERY_MS);
    }
  }

  /**
   * Loads the keys. A request on Workers cannot await the fetch of another request. So when KEY_SERVER_FAILURES_MAX requests are
   * fetching, further requests poll for the result. Then a server that hangs gets no more requests than a server that fails.
   */
  async #load(nowMs: number, isReload: boolean): Promise<PublishedKeys> {
    await this.#waitForOthers();
    if (!isReload && this.#keys !== null) return this.#keys;
    if (this.#failures.count(nowMs) >= KEY_SERVER_FAILURES_MAX) throw keyServerFault("It failed a moment ago.");
    let fetched: FetchedKeySet;
    this.#fetchCount++;
    try {
      fetched = await fetchKeySet(this.#url, nowMs, isReload);
    } catch (error) {
      this.#failures.add(nowMs);
      throw keyServerFault(error);
    } finally {
      this.#fetchCount = Math.max(0, this.#fetchCount - 1);
    }
    const keys = parsePublishedKeys(fetched.keys);
    if (fetched.fetchedAtMs < this.#fetchedAtMs) return keys;
    this.#keys = keys;
    this.#fetchedAtMs = fetched.fetchedAtMs;
    return keys;
  }
}

/** The key sets of an isolate, by URL. */
const keySetsOf = rememberPerObject(() => new Map<string, KeySet>());

function rememberKeySet({ isolate }: Pick<Runtime, "isolate">, url: string): KeySet {
  const sets = keySetsOf(isolate);
  if (sets.size >= KEY_SETS_MAX && !sets.has(url)) sets.clear();
  const keySet = sets.get(url) ?? new KeySet(url);
  sets.set(url, keySet);
  return keySet;
}

/**
 * Returns the rejection of a token's signature under the keys published at `url`, or null when one of them made it. Throws
 * `temporarily_unavailable` when the key server cannot be reached, or its answer is not a key set.
 */
export async function checkByPublishedKeys(
  runtime: Pick<Runtime, "isolate" | "now">,
  url: string,
  token: string,
  alg: string,
): Promise<TokenRejection | null> {
  // A published key cannot have this algorithm, so nothing is fetched.
  if (!isAsymmetric(alg)) return "algorithm";
  const nowMs = runtime.now();
  const keySet = rememberKeySet(runtime, url);
  keySet.expire(nowMs);
  return keySet.readRejection(token, nowMs);
}

function keyServerFault(cause: unknown): PurserError {
  const message = "The application's key server cannot be reached; try again.";
  return temporarilyUnavailable(message, cause, "key_server_unreachable");
}

/** How long published keys are trusted after they were fetched, in the platform's cache and in an isolate. */
const KEY_SET_FRESH_MS = 600_000;

const JWKS_BYTES_MAX = 256 * 1024;
const JWKS_KEYS_MAX = 100;
/** How long a key server may take to answer. */
const KEY_SERVER_MS_MAX = 5_000;
/** The header that stores, in the platform's cache, when an answer was fetched. */
const FETCHED_AT = "x-fetched-at-ms";

export interface FetchedKeySet {
  /** At most 100. Each is checked when it is used. */
  readonly keys: readonly unknown[];
  readonly fetchedAtMs: number;
}

/**
 * Returns the keys published at `url`. They come from the platform's cache if an isolate in the same location stored them in the
 * last ten minutes, otherwise from the key server. `isReload` skips the cache. Throws unless the response has status 200, at most
 * 256 KiB and at most 100 keys.
 */
async function fetchKeySet(url: string, nowMs: number, isReload: boolean): Promise<FetchedKeySet> {
  const cached = isReload ? null : await readCache(url, nowMs);
  if (cached !== null) return cached;
  const response = await fetch(url, {
    redirect: "manual",
    headers: { accept: "application/json, application/jwk-set+json" },
    signal: AbortSignal.timeout(KEY_SERVER_MS_MAX),
  });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new Error(`The key server answered ${response.status}.`);
  }
  const text = await readResponseWithin(response);
  const fetched = { keys: readKeys(text), fetchedAtMs: nowMs };
  await writeCache(url, text, nowMs);
  return fetched;
}

function readKeys(text: string): readonly unknown[] {
  const value: unknown = JSON.parse(text);
  const keys = typeof value === "object" && value !== null && "keys" in value ? value.keys : null;
  if (!Array.isArray(keys)) throw new Error("The key server's answer is not a key set.");
  if (keys.length > JWKS_KEYS_MAX) throw new Error(`The key server's answer has more than ${JWKS_KEYS_MAX} keys.`);
  return keys;
}

async function readResponseWithin({ body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  const reader = body?.getReader();
  let text = "";
  for (let size = 0; ; ) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done) return text + decoder.decode();
    size += value.byteLength;
    if (size > JWKS_BYTES_MAX) {
      await reader?.cancel();
      throw new Error(`The key server's answer is larger than ${JWKS_BYTES_MAX} bytes.`);
    }
    text += decoder.decode(value, { stream: true });
  }
}

/**
 * Returns the key of a URL in the platform's cache. It is in a domain of Purser's own, so that it is never a key under which
 * another Worker caches the key server's response.
 */
const cacheKey = (url: string): string => `https://key-sets.purser.invalid/${encodeURIComponent(url)}`;

/** Returns the cached keys of a URL, or null. A missing or failing cache is no error, because it only saves a fetch. */
async function readCache(url: string, nowMs: number): Promise<FetchedKeySet | null> {
  try {
    const cached = await platformCache()?.match(cacheKey(url));
    if (cached === undefined) return null;
    const fetchedAtMs = Number(cached.headers.get(FETCHED_AT));
    if (!(nowMs - fetchedAtMs < KEY_SET_FRESH_MS)) return null;
    return { keys: readKeys(await cached.text()), fetchedAtMs };
  } catch {
    return null;
  }
}

async function writeCache(url: string, text: string, nowMs: number): Promise<void> {
  const headers = { "cache-control": `max-age=${KEY_SET_FRESH_MS / 1_000}`, [FETCHED_AT]: String(nowMs) };
  try {
    await platformCache()?.put(cacheKey(url), new Response(text, { headers }));
  } catch {}
}

function platformCache(): Cache | undefined {
  return typeof caches === "undefined" ? undefined : caches.default;
}
