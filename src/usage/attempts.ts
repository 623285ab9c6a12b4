import { constraintOf } from "../db/constraint.ts";
import { temporarilyUnavailable } from "../errors.ts";
import type { Ctx } from "../runtime.ts";

/** An attempt that came too late: somebody else wrote between its reading and its writing. */
export const OVERTAKEN = Symbol("overtaken");

const ATTEMPTS_MAX = 64;
const PAUSE_MS_MAX = 1_000;

/** The refusals by which the database says that a plan was made on a state that is gone. */
const RACES: ReadonlySet<string | null> = new Set([
  "credit_balances_remaining_not_negative",
  "reservations_settled_once",
  "reservations_primary_key",
  "usage_events_event_id",
]);

/** Lands a batch; OVERTAKEN when a race was lost. */
export async function landed<T>(land: () => Promise<T>): Promise<T | typeof OVERTAKEN> {
  try {
    return await land();
  } catch (error) {
    if (RACES.has(constraintOf(error))) return OVERTAKEN;
    throw error;
  }
}

/**
 * Reads and plans again until an attempt lands or is refused. An attempt is made at one moment, whatever its trips take:
 * what was live when it read is live by what it writes. The first repeats follow at once; later ones after pauses that
 * grow and that `nonce` (random characters) spreads, so that hundreds on one balance do not keep meeting.
 */
export async function persevere<T>(
  ctx: Ctx,
  nonce: string,
  attempt: (moment: Ctx) => Promise<T | typeof OVERTAKEN>,
): Promise<T> {
  for (let count = 1; count <= ATTEMPTS_MAX; count++) {
    const nowMs = ctx.now();
    const outcome = await attempt({ ...ctx, now: () => nowMs });
    if (outcome !== OVERTAKEN) return outcome;
    if (count > 2) await scheduler.wait(pauseMs(nonce, count));
  }
  throw temporarilyUnavailable("Too many writes for one user at once; try again shortly.");
}

function pauseMs(nonce: string, count: number): number {
  const first = nonce.charCodeAt(count % nonce.length);
  const second = nonce.charCodeAt((count * 7 + 3) % nonce.length);
  const spread = ((first * 131 + second * 17) % 997) / 997;
  return Math.ceil(spread * Math.min(PAUSE_MS_MAX, 4 * 2 ** count));
}
