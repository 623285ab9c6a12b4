import { MINUTE_MS } from "../lib/time.ts";

/** The most addresses that are remembered. Beyond it, the oldest is forgotten. */
const REMEMBERED_MAX = 10_000;

/** Removes `text`, so that it can be added again at the end, and removes the oldest entry of a full map. */
function makeRoom(map: Map<string, unknown>, text: string): void {
  map.delete(text);
  const [oldest] = map.keys();
  if (map.size >= REMEMBERED_MAX && oldest !== undefined) map.delete(oldest);
}

interface Minute {
  readonly startMs: number;
  count: number;
}

/** Counts per minute, by address or another text. The minute of an address begins with its first count. */
export class MinuteCounts {
  readonly #minutes = new Map<string, Minute>();
  readonly #lengthMs: number;

  /** `lengthMs`: the length of the minute, for tests. */
  constructor(lengthMs = MINUTE_MS) {
    this.#lengthMs = lengthMs;
  }

  count(address: string, nowMs: number): number {
    return this.#current(address, nowMs)?.count ?? 0;
  }

  /** Adds `times` to the count, and returns the sum. */
  add(address: string, nowMs: number, times = 1): number {
    const minute = this.#current(address, nowMs) ?? this.#begin(address, nowMs);
    minute.count += times;
    return minute.count;
  }

  /** Returns the whole seconds until the address's minute is over; at least 1. */
  secondsLeft(address: string, nowMs: number): number {
    const startMs = this.#current(address, nowMs)?.startMs ?? nowMs;
    return Math.max(1, Math.ceil((startMs + this.#lengthMs - nowMs) / 1_000));
  }

  #current(address: string, nowMs: number): Minute | undefined {
    const minute = this.#minutes.get(address);
    return minute === undefined || nowMs - minute.startMs >= this.#lengthMs ? undefined : minute;
  }

  #begin(address: string, nowMs: number): Minute {
    makeRoom(this.#minutes, address);
    const minute = { startMs: nowMs, count: 0 };
    this.#minutes.set(address, minute);
    return minute;
  }
}

/** A set of texts, each remembered until its own expiry. */
export class MinuteMemory {
  readonly #untilMs = new Map<string, number>();

  note(text: string, untilMs: number): void {
    makeRoom(this.#untilMs, text);
    this.#untilMs.set(text, untilMs);
  }

  has(text: string, nowMs: number): boolean {
    return nowMs < (this.#untilMs.get(text) ?? Number.NEGATIVE_INFINITY);
  }

  forget(text: string): void {
    this.#untilMs.delete(text);
  }
}

/**
 * Returns whether the platform allows a request from an address. Null if the platform does not count requests. Then the
 * counts of the isolate decide.
 */
export async function mayPass(limiter: RateLimit | undefined, address: string): Promise<boolean | null> {
  try {
    return limiter === undefined ? null : (await limiter.limit({ key: address })).success;
  } catch {
    return null;
  }
}
