import type { ErasedId } from "../../db/tombstones.ts";
import { type JsonObject, parseJson } from "../../lib/json.ts";
import type { CapturedEvent } from "./event.ts";

/** Returns the ids for which events are written: their own ids, and the ids that verified claims name (E4). */
export function idsWritten(events: readonly CapturedEvent[], isVerified: boolean): string[] {
  return events.flatMap(({ distinctId, link }) => [distinctId, ...(isVerified && link !== null ? [link.otherId] : [])]);
}

/** Returns all ids that events name as other ids of the same person. */
export function idsMentioned(events: readonly CapturedEvent[]): string[] {
  return events.flatMap(({ mentions }) => mentions().map(({ id }) => id));
}

/** The events of a request without erased ids (E4). */
export interface Remaining {
  readonly erased: ReadonlyMap<string, ErasedId>;
  /**
   * Returns the events to store. Events of blocked ids are left out, and mentions of erased ids are removed from the others.
   */
  readonly toStore: (events: readonly CapturedEvent[]) => readonly CapturedEvent[];
}

export const nothingErased: Remaining = { erased: new Map(), toStore: (events) => events };

/** Removes erased ids from the events of a request. */
export function withoutErased(
  requested: readonly CapturedEvent[],
  erased: ReadonlyMap<string, ErasedId>,
  isVerified: boolean,
): Remaining {
  const isKept = ({ distinctId }: CapturedEvent) => erased.get(distinctId)?.blocks !== true;
  const written = new Set(idsWritten(requested.filter(isKept), isVerified));
  const removed = new Set(Array.from(erased).flatMap(([id, { blocks }]) => (blocks || !written.has(id) ? [id] : [])));
  return { erased, toStore: (events) => events.filter(isKept).map((event) => withoutMentions(event, removed)) };
}

function withoutMentions(event: CapturedEvent, ids: ReadonlySet<string>): CapturedEvent {
  const mentions = event.mentions();
  const removed = mentions.filter(({ id }) => ids.has(id));
  if (removed.length === 0) return event;
  const rest = mentions.filter(({ id }) => !ids.has(id));
  return {
    ...event,
    link: event.link !== null && ids.has(event.link.otherId) ? null : event.link,
    mentions: () => rest,
    properties: withoutMembers(
      event.properties,
      removed.map(({ property }) => property),
    ),
  };
}

/** Returns the text of an object without some members. */
function withoutMembers(text: string, names: readonly string[]): string {
  // The text is that of an event's properties.
  const kept = Object.entries(parseJson(text) as JsonObject).filter(([name]) => !names.includes(name));
  return JSON.stringify(Object.fromEntries(kept));
}
