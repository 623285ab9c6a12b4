/** How long published keys are trusted after they were fetched, in the platform's cache and in an isolate. */
export const keySetFreshMs = 600_000;

const BYTES_MAX = 256 * 1024;
const KEYS_MAX = 100;
/** How long a key server may take. */
export const fetchMsMax = 5_000;
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
export async function fetchKeySet(url: string, nowMs: number, isAnew: boolean): Promise<FetchedKeySet> {
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
