import { type PurserError, temporarilyUnavailable } from "../errors.ts";
import type { Runtime } from "../runtime.ts";
import { isAsymmetric, keysFlaw, type PublishedKeys, publishedKeysOf, type TokenFlaw } from "./jwt.ts";

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
  #keys: PublishedKeys | null = null;
  #fetchedAtMs = 0;
  /** The number of requests that fetch the keys now. */
  #fetching = 0;

  constructor(url: string) {
    this.#url = url;
  }

  /** What is wrong with a token's signature; null where one of the keys made it. */
  async flawOf(token: string, nowMs: number): Promise<TokenFlaw | null> {
    const flaw = await keysFlaw(token, this.#keys ?? (await this.#load(nowMs, false)));
    if (flaw === null || !this.#takeReload(flaw, nowMs)) return flaw;
    return keysFlaw(token, await this.#load(nowMs, true));
  }

  /** Forgets keys that are too old to trust. */
  expire(nowMs: number): void {
    if (nowMs - this.#fetchedAtMs >= keySetFreshMs) this.#keys = null;
  }

  /**
   * Takes one of the minute's reloads; false when none is left, so that made-up keys do not hammer the server. Keys are rotated
   * at any moment, also right after they were fetched. A key may also be exchanged under its own kid, or have none to tell it
   * from the one before.
   */
  #takeReload(flaw: TokenFlaw, nowMs: number): boolean {
    if (flaw === "signature" && nowMs - this.#fetchedAtMs < SIGNATURES_RELOAD_AFTER_MS) return false;
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
  async #load(nowMs: number, isAnew: boolean): Promise<PublishedKeys> {
    await this.#waitForOthers();
    if (!isAnew && this.#keys !== null) return this.#keys;
    if (this.#failures.count(nowMs) >= FAILURES_A_MINUTE_MAX) throw keyServerFault("It failed a moment ago.");
    let fetched: FetchedKeySet;
    this.#fetching++;
    try {
      fetched = await fetchKeySet(this.#url, nowMs, isAnew);
    } catch (error) {
      this.#failures.add(nowMs);
      throw keyServerFault(error);
    } finally {
      this.#fetching = Math.max(0, this.#fetching - 1);
    }
    const keys = publishedKeysOf(fetched.keys);
    if (fetched.fetchedAtMs < this.#fetchedAtMs) return keys;
    this.#keys = keys;
    this.#fetchedAtMs = fetched.fetchedAtMs;
    return keys;
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
 * What is wrong with a token's signature by the keys published at `url`; null where one of them made it. Throws
 * `temporarily_unavailable` when the key server cannot be reached, or answers what is no set of keys.
 */
export async function publishedKeysFlaw(
  runtime: Pick<Runtime, "isolate" | "now">,
  url: string,
  token: string,
  alg: string,
): Promise<TokenFlaw | null> {
  // Nothing is fetched for an algorithm that no published key may have.
  if (!isAsymmetric(alg)) return "algorithm";
  const nowMs = runtime.now();
  const keySet = keySetOf(runtime, url);
  keySet.expire(nowMs);
  return keySet.flawOf(token, nowMs);
}

function keyServerFault(cause: unknown): PurserError {
  const message = "The application's key server cannot be reached; try again.";
  return temporarilyUnavailable(message, cause, "key_server_unreachable");
}

/** How long published keys are trusted after they were fetched, in the platform's cache and in an isolate. */
const keySetFreshMs = 600_000;

const BYTES_MAX = 256 * 1024;
const KEYS_MAX = 100;
/** How long a key server may take. */
const fetchMsMax = 5_000;
/** In the platform's cache, the moment at which an answer was fetched. */
const FETCHED_AT = "x-fetched-at-ms";

export interface FetchedKeySet {
  /** At most 100. What is in them is judged when they are used. */
  readonly keys: readonly unknown[];
  readonly fetchedAtMs: number;
}

/**
 * The keys published at `url`: from the platform's cache, where an isolate of the same place put them in the last ten
 * minutes, else from the key server; `isAnew` passes the cache by. Throws for an answer other than 200 with at most 256 KiB
 * and 100 keys.
 */
async function fetchKeySet(url: string, nowMs: number, isAnew: boolean): Promise<FetchedKeySet> {
  const cached = isAnew ? null : await readCache(url, nowMs);
  if (cached !== null) return cached;
  const response = await fetch(url, {
    redirect: "manual",
    headers: { accept: "application/json, application/jwk-set+json" },
    signal: AbortSignal.timeout(fetchMsMax),
  });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new Error(`The key server answered ${response.status}.`);
  }
  const text = await readWithin(response);
  const fetched = { keys: readKeys(text), fetchedAtMs: nowMs };
  await writeCache(url, text, nowMs);
  return fetched;
}

function readKeys(text: string): readonly unknown[] {
  const value: unknown = JSON.parse(text);
  const keys = typeof value === "object" && value !== null && "keys" in value ? value.keys : null;
  if (!Array.isArray(keys)) throw new Error("The key server's answer is no set of keys.");
  if (keys.length > KEYS_MAX) throw new Error(`The key server's answer has more than ${KEYS_MAX} keys.`);
  return keys;
}

async function readWithin({ body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  const reader = body?.getReader();
  let text = "";
  for (let size = 0; ; ) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done) return text + decoder.decode();
    size += value.byteLength;
    if (size > BYTES_MAX) {
      await reader?.cancel();
      throw new Error(`The key server's answer is larger than ${BYTES_MAX} bytes.`);
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** A name of our own: what the key's own host caches under its URL is none of our business. */
const cacheKey = (url: string): string => `https://key-sets.purser.invalid/${encodeURIComponent(url)}`;

/** Null also where the runtime has no cache, or it fails: it saves a fetch, and nothing rests on it. */
async function readCache(url: string, nowMs: number): Promise<FetchedKeySet | null> {
  try {
    const found = await platformCache()?.match(cacheKey(url));
    if (found === undefined) return null;
    const fetchedAtMs = Number(found.headers.get(FETCHED_AT));
    if (!(nowMs - fetchedAtMs < keySetFreshMs)) return null;
    return { keys: readKeys(await found.text()), fetchedAtMs };
  } catch {
    return null;
  }
}

async function writeCache(url: string, text: string, nowMs: number): Promise<void> {
  const headers = { "cache-control": `max-age=${keySetFreshMs / 1_000}`, [FETCHED_AT]: String(nowMs) };
  try {
    await platformCache()?.put(cacheKey(url), new Response(text, { headers }));
  } catch {}
}

function platformCache(): Cache | undefined {
  return typeof caches === "undefined" ? undefined : caches.default;
}
