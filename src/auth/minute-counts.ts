const MINUTE_MS = 60_000;
/** So many addresses are remembered; then the one whose minute began first is forgotten. */
const ADDRESSES_MAX = 10_000;

interface Minute {
  readonly startMs: number;
  count: number;
}

/** How often each address did something in a minute, which begins with the first time. */
class MinuteCounts {
  readonly #minutes = new Map<string, Minute>();

  count(address: string, nowMs: number): number {
    return this.#current(address, nowMs)?.count ?? 0;
  }

  /** Counts `times` more, and answers the sum. */
  add(address: string, nowMs: number, times = 1): number {
    const minute = this.#current(address, nowMs) ?? this.#begin(address, nowMs);
    minute.count += times;
    return minute.count;
  }

  /** Whole seconds until the address's minute is over; at least 1. */
  secondsLeft(address: string, nowMs: number): number {
    const startMs = this.#current(address, nowMs)?.startMs ?? nowMs;
    return Math.max(1, Math.ceil((startMs + MINUTE_MS - nowMs) / 1_000));
  }

  #current(address: string, nowMs: number): Minute | undefined {
    const minute = this.#minutes.get(address);
    return minute === undefined || nowMs - minute.startMs >= MINUTE_MS ? undefined : minute;
  }

  #begin(address: string, nowMs: number): Minute {
    this.#minutes.delete(address);
    const [oldest] = this.#minutes.keys();
    if (this.#minutes.size >= ADDRESSES_MAX && oldest !== undefined) this.#minutes.delete(oldest);
    const minute = { startMs: nowMs, count: 0 };
    this.#minutes.set(address, minute);
    return minute;
  }
}

/** A function that answers each isolate its own counts. */
export function countsOfIsolates(): (isolate: object) => MinuteCounts {
  const counts = new WeakMap<object, MinuteCounts>();
  return (isolate) => {
    const own = counts.get(isolate) ?? new MinuteCounts();
    counts.set(isolate, own);
    return own;
  };
}

/** Whether the platform lets an address pass. Null where it does not count, or cannot: then the isolate's own counts decide. */
export async function mayPass(limiter: RateLimit | undefined, address: string): Promise<boolean | null> {
  try {
    return limiter === undefined ? null : (await limiter.limit({ key: address })).success;
  } catch {
    return null;
  }
}
