import type { AnalyticsLimit } from "../limits/analytics-limits.ts";
import type { CapturedEvent } from "./event.ts";

/** What became of stored events, by their UUIDs. */
export interface StoredEvents {
  /** Why an event linked or set nothing. */
  readonly warnings: ReadonlyMap<string, string>;
  /** Why an event was not stored: the limit of analytics that was met (L3). */
  readonly drops: ReadonlyMap<string, AnalyticsLimit>;
  /** The limit of the environment that was met: nothing more of the request is stored. */
  readonly full: AnalyticsLimit | null;
}

/** What becomes of events when a limit of the environment was met. */
export function dropAll(events: readonly CapturedEvent[], full: AnalyticsLimit): StoredEvents {
  return { warnings: new Map(), drops: new Map(events.map(({ uuid }) => [uuid, full])), full };
}

/** Which of these events were dropped, because their ids are over a limit. */
export function dropsOf(
  events: readonly CapturedEvent[],
  over: ReadonlyMap<string, AnalyticsLimit>,
): ReadonlyMap<string, AnalyticsLimit> {
  const drops = new Map<string, AnalyticsLimit>();
  for (const { uuid, distinctId } of events) {
    const limit = over.get(distinctId);
    if (limit !== undefined) drops.set(uuid, limit);
  }
  return drops;
}
