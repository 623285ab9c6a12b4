import type { ErasedId } from "../../db/tombstones.ts";
import { utf8 } from "../../lib/encoding.ts";
import { JsonBytes, Names } from "../../lib/json-bytes.ts";
import type { CapturedEvent } from "./event.ts";

/** The ids for which events are written: their own, and those that verified claims name (E4). */
export function idsWritten(events: readonly CapturedEvent[], isVerified: boolean): string[] {
  return events.flatMap(({ distinctId, link }) => [distinctId, ...(isVerified && link !== null ? [link.otherId] : [])]);
}

/** All further ids that events name as other ids of the same person. */
export function idsMentioned(events: readonly CapturedEvent[]): string[] {
  return events.flatMap(({ mentions }) => mentions().map(({ id }) => id));
}

/** The events of a request without erased ids (E4). */
export interface Remaining {
  readonly erased: ReadonlyMap<string, ErasedId>;
  /**
   * The events to store: without those of blocked ids, and with mentions of erased ids removed from the others.
   */
  readonly of: (events: readonly CapturedEvent[]) => readonly CapturedEvent[];
}

export const nothingErased: Remaining = { erased: new Map(), of: (events) => events };

/** Removes erased ids from the events of a request. */
export function withoutErased(
  all: readonly CapturedEvent[],
  erased: ReadonlyMap<string, ErasedId>,
  isVerified: boolean,
): Remaining {
  const isKept = ({ distinctId }: CapturedEvent) => erased.get(distinctId)?.blocks !== true;
  const written = new Set(idsWritten(all.filter(isKept), isVerified));
  const cut = new Set(Array.from(erased).flatMap(([id, { blocks }]) => (blocks || !written.has(id) ? [id] : [])));
  return { erased, of: (events) => events.filter(isKept).map((event) => withoutMentions(event, cut)) };
}

function withoutMentions(event: CapturedEvent, ids: ReadonlySet<string>): CapturedEvent {
  const mentions = event.mentions();
  const cut = mentions.filter(({ id }) => ids.has(id));
  if (cut.length === 0) return event;
  const rest = mentions.filter(({ id }) => !ids.has(id));
  return {
    ...event,
    link: event.link !== null && ids.has(event.link.otherId) ? null : event.link,
    mentions: () => rest,
    properties: withoutMembers(
      event.properties,
      cut.map(({ property }) => property),
    ),
  };
}

/** The text of an object without some members. The others stay as sent. */
function withoutMembers(text: string, properties: readonly string[]): string {
  const json = new JsonBytes(utf8(text));
  const names = new Names(properties);
  const kept: string[] = [];
  json.members(0, (name, valueStart) => {
    const end = json.skip(valueStart);
    if (json.find(names, name) === undefined) kept.push(json.text({ start: name.start, end }));
    return end;
  });
  return `{${kept.join()}}`;
}
