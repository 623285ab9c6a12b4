import type { AnalyticsLimit, DropReason, EnvironmentLimit } from "../limits/daily-limits.ts";
import { eventKey } from "../plan-people.ts";
import type { CapturedEvent } from "./event.ts";

/** The results of a request's events, by `eventKey`. */
export interface StoredEvents {
  /** Why an event linked or set nothing. */
  readonly warnings: ReadonlyMap<string, string>;
  /** Why an event was not stored: the reached limit of analytics (L3). */
  readonly drops: ReadonlyMap<string, DropReason>;
  /** The limit of the environment that was reached, or null. After it, no more events of the request are stored. */
  readonly reachedLimit: EnvironmentLimit | null;
}

/** Drops all events, because a limit of the environment is reached. */
export function dropAll(events: readonly CapturedEvent[], reachedLimit: EnvironmentLimit): StoredEvents {
  return { warnings: new Map(), drops: allDropped(events, reachedLimit), reachedLimit };
}

export const allDropped = (events: readonly CapturedEvent[], reason: DropReason): ReadonlyMap<string, DropReason> =>
  new Map(events.map((event) => [eventKey(event), reason]));

/** Returns the events that were dropped because their ids exceed a limit, by `eventKey`. */
export function planDrops(
  events: readonly CapturedEvent[],
  overLimit: ReadonlyMap<string, AnalyticsLimit>,
): ReadonlyMap<string, AnalyticsLimit> {
  const drops = new Map<string, AnalyticsLimit>();
  for (const event of events) {
    const limit = overLimit.get(event.distinctId);
    if (limit !== undefined) drops.set(eventKey(event), limit);
  }
  return drops;
}
