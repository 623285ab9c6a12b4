import { type Travel, wrappedD1 } from "./wrapped-d1.ts";

export interface Distances {
  /** The time of a round trip to the primary. */
  readonly primaryMs: number;
  /** The time of a round trip to the nearest replica. */
  readonly replicaMs: number;
}

/** The trips since the last call of `spent`. */
export interface Trips {
  /** The number of trips one after another. Trips at the same time count once. */
  readonly inSequence: number;
  readonly primary: number;
  readonly replica: number;
}

/**
 * A D1 that is far away, with a near replica. A session that starts at the primary sends each trip there. Any other session
 * reads from the replica and writes to the primary. `spent()` returns the counts and resets them.
 */
export function farD1(
  d1: D1Database,
  { primaryMs, replicaMs }: Distances,
): { readonly d1: D1Database; readonly spent: () => Trips } {
  let counts = { primary: 0, replica: 0 };
  let longest = 0;
  let answered = 0;
  const travel: Travel = async (send, statements, start) => {
    // This trip comes after every trip that had ended when it started.
    const place = answered + 1;
    longest = Math.max(longest, place);
    let nearest: "primary" | "replica" = start === "first-primary" ? "primary" : "replica";
    try {
      const results = await send(statements);
      if (results.some(({ meta }) => meta.rows_written > 0)) nearest = "primary";
      return results;
    } finally {
      counts[nearest]++;
      const ms = nearest === "primary" ? primaryMs : replicaMs;
      if (ms > 0) await scheduler.wait(ms);
      answered = Math.max(answered, place);
    }
  };
  const spent = () => {
    const before = { inSequence: longest, ...counts };
    counts = { primary: 0, replica: 0 };
    longest = 0;
    answered = 0;
    return before;
  };
  return { d1: wrappedD1(d1, travel, { isMeasured: true }), spent };
}
