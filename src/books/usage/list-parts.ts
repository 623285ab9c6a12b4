import type { StampedEvent } from "./decide-events.ts";

/** An event of a list, with its place in it. */
export interface ListedEvent extends StampedEvent {
  readonly place: number;
}

/** Events of one user, in the order of the list. */
export interface Part {
  readonly userId: string;
  readonly events: readonly ListedEvent[];
}

/**
 * The parts of a list that can land beside each other, and what must wait for them: an event whose id is another user's
 * before it in the list, or waits already, and what follows it of the same user. The first event never waits. One whose id may
 * be another user's reservation, which that user's next write charges (U15), is recorded after all before it and before the rest.
 */
export function partsOf(events: readonly ListedEvent[]): {
  readonly parts: readonly Part[];
  readonly later: readonly ListedEvent[];
} {
  const parts = new Map<string, ListedEvent[]>();
  const later: ListedEvent[] = [];
  const owners = new Map<string, string>();
  const waitingUsers = new Set<string>();
  const waitingIds = new Set<string>();
  const isOfSeveral = events.some(({ input }) => input.userId !== events[0]?.input.userId);
  for (const [index, listed] of events.entries()) {
    const { userId, eventId } = listed.input;
    if (isOfSeveral && eventId.startsWith("res_")) {
      const own = index === 0 ? [{ userId, events: [listed] }] : [];
      return { parts: [...toParts(parts), ...own], later: [...later, ...events.slice(index + own.length)] };
    }
    const owner = owners.get(eventId) ?? userId;
    owners.set(eventId, owner);
    if (owner !== userId || waitingIds.has(eventId)) waitingUsers.add(userId);
    if (waitingUsers.has(userId)) {
      waitingIds.add(eventId);
      later.push(listed);
      continue;
    }
    const own = parts.get(userId) ?? [];
    parts.set(userId, own);
    own.push(listed);
  }
  return { parts: toParts(parts), later };
}

const toParts = (parts: ReadonlyMap<string, readonly ListedEvent[]>): Part[] =>
  [...parts].map(([userId, events]) => ({ userId, events }));
