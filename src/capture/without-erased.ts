import { JsonBytes, Names } from "../lib/json-bytes.ts";
import { utf8 } from "../lib/utf8.ts";
import type { CapturedEvent } from "./event.ts";

/** All ids that an event is about, or names as another id of its own. */
export function idsNamedBy(events: readonly CapturedEvent[]): string[] {
  return events.flatMap(({ distinctId, otherIds }) => [distinctId, ...otherIds.map(({ id }) => id)]);
}

/**
 * Events as they are stored while some ids are erased (E4): those of an erased id are left out, and where others name one as
 * another id of their own, it is cut out.
 */
export function withoutErased(
  events: readonly CapturedEvent[],
  erased: ReadonlyMap<string, string>,
): readonly CapturedEvent[] {
  if (erased.size === 0) return events;
  return events
    .filter(({ distinctId }) => !erased.has(distinctId))
    .map((event) => {
      const cut = event.otherIds.filter(({ id }) => erased.has(id)).map(({ property }) => property);
      if (cut.length === 0) return event;
      return { ...event, link: null, otherIds: [], properties: withoutMembers(event.properties, cut) };
    });
}

/** The text of an object without some members. The others are as they were sent. */
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
