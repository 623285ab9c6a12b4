import { type Travel, wrappedD1 } from "./wrapped-d1.ts";

export interface Distances {
  /** How long a trip to the primary takes, there and back. */
  readonly primaryMs: number;
  /** How long one takes that the nearest replica answers. */
  readonly replicaMs: number;
}

/** The trips of a stretch of work: of one request, if nothing else is under way. */
export interface Trips {
  /** How many were made one after another. Those that are under way at once count once. */
  readonly inSequence: number;
  readonly primary: number;
  readonly replica: number;
}

/**
 * A D1 that is far away, and a replica of it that is near. A session that starts at the primary goes there with each trip;
 * any other goes to the replica, and to the primary with what it writes. `spent()` answers and starts anew.
 */
export function farD1(
  d1: D1Database,
  { primaryMs, replicaMs }: Distances,
): { readonly d1: D1Database; readonly spent: () => Trips } {
  let counts = { primary: 0, replica: 0 };
  let longest = 0;
  let answered = 0;
  const travel: Travel = async (send, statements, start) => {
    // It comes after every trip whose answer was there when it left.
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
