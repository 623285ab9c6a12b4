import { temporarilyUnavailable } from "../errors.ts";
import { type Constraint, constraintOf } from "./constraint.ts";

const ATTEMPTS_MAX = 64;
/** The first repeats follow at once: as a rule the other write is over by then. */
const ATTEMPTS_WITHOUT_PAUSE = 2;
const PAUSE_MS_MAX = 1_000;

/**
 * Makes an attempt (read, decide, write) again for as long as its write is refused by one of `conflicts`: the constraints by
 * which the database says that somebody else changed what the attempt had read. Any other error is thrown.
 *
 * Later repeats follow after pauses that grow, and that `nonce` (random characters) spreads, so that hundreds of writers do
 * not keep meeting. Throws `temporarily_unavailable` after 64 attempts.
 */
export async function retryOnConflict<Answer>(
  conflicts: ReadonlySet<Constraint>,
  nonce: string,
  attempt: () => Promise<Answer>,
): Promise<Answer> {
  for (let count = 1; ; count++) {
    try {
      return await attempt();
    } catch (error) {
      const constraint = constraintOf(error);
      if (constraint === null || !conflicts.has(constraint)) throw error;
      if (count === ATTEMPTS_MAX)
        throw temporarilyUnavailable("Too many writes at the same time. Try again shortly.", error);
    }
    if (count >= ATTEMPTS_WITHOUT_PAUSE) await scheduler.wait(pauseMs(nonce, count));
  }
}

function pauseMs(nonce: string, count: number): number {
  const first = nonce.charCodeAt(count % nonce.length);
  const second = nonce.charCodeAt((count * 7 + 3) % nonce.length);
  const spread = ((first * 131 + second * 17) % 997) / 997;
  return Math.ceil(spread * Math.min(PAUSE_MS_MAX, 4 * 2 ** count));
}
