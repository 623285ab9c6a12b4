import { temporarilyUnavailable } from "../errors.ts";
import { type Constraint, constraintOf } from "./constraint.ts";

const CONFLICT_ATTEMPTS_MAX = 64;
/** The first repeats do not wait, because the conflicting write has usually finished. */
const ATTEMPTS_WITHOUT_PAUSE = 2;
const PAUSE_MS_MAX = 1_000;

/** An attempt throws this to be repeated when no constraint reports the conflict. */
export class MakeAgain extends Error {}

/**
 * Repeats an attempt (read, decide, write) while its write fails with one of `conflicts`, the constraints that report an earlier
 * write by another caller. Later repeats wait longer, and `nonce` (random characters) spreads them. Throws other errors, and
 * `temporarily_unavailable` after 64 attempts.
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
      const isConflict = error instanceof MakeAgain || (constraint !== null && conflicts.has(constraint));
      if (!isConflict) throw error;
      if (count === CONFLICT_ATTEMPTS_MAX)
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
