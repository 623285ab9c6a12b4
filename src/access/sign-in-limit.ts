const TRIES_A_MINUTE_MAX = 10;
const ADDRESSES_MAX = 10_000;

/** Tries of this isolate, by address, for a deployment without the rate limit binding. */
const tries = new Map<string, { sinceMs: number; count: number }>();

function mayTryHere(address: string, nowMs: number): boolean {
  const known = tries.get(address);
  if (known === undefined || nowMs - known.sinceMs >= 60_000) {
    if (tries.size >= ADDRESSES_MAX) tries.clear();
    tries.set(address, { sinceMs: nowMs, count: 1 });
    return true;
  }
  known.count++;
  return known.count <= TRIES_A_MINUTE_MAX;
}

/** Whether an address may try to sign in once more: ten times a minute, counted where the platform counts. */
export async function mayTryToSignIn(limiter: RateLimit | undefined, address: string, nowMs: number): Promise<boolean> {
  return limiter === undefined ? mayTryHere(address, nowMs) : (await limiter.limit({ key: address })).success;
}
