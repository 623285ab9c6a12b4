import type { ErasedId } from "../../db/tombstones/check.ts";
import { JsonBytes, Names } from "../../lib/json-bytes.ts";
import { utf8 } from "../../lib/utf8.ts";
import type { CapturedEvent } from "./event.ts";

/** The ids for which events are written: their own, and those that verified claims name (E4). */
export function idsWritten(events: readonly CapturedEvent[], isVerified: boolean): string[] {
  return events.flatMap(({ distinctId, link }) => [distinctId, ...(isVerified && link !== null ? [link.otherId] : [])]);
}

/** All other ids that events name as another id of their own. */
export function idsMentioned(events: readonly CapturedEvent[]): string[] {
  return events.flatMap(({ mentions }) => mentions().map(({ id }) => id));
}

/**
 * Events as they are stored while some ids are erased (E4): those of an id that is blocked are left out, and where others name an
 * erased id as another id of their own, it is cut out.
 */
export function withoutErased(
  events: readonly CapturedEvent[],
  erased: ReadonlyMap<string, ErasedId>,
  isVerified: boolean,
): readonly CapturedEvent[] {
  if (erased.size === 0) return events;
  const kept = events.filter(({ distinctId }) => erased.get(distinctId)?.blocks !== true);
  const begunAnew = new Set(idsWritten(kept, isVerified).filter((id) => erased.get(id)?.blocks === false));
  const isCut = ({ id }: { readonly id: string }) => erased.has(id) && !begunAnew.has(id);
  return kept.map((event) => {
    const mentions = event.mentions();
    const cut = mentions.filter(isCut);
    if (cut.length === 0) return event;
    const rest = mentions.filter((mention) => !isCut(mention));
    const properties = cut.map(({ property }) => property);
    return {
      ...event,
      link: event.link !== null && isCut({ id: event.link.otherId }) ? null : event.link,
      mentions: () => rest,
      properties: withoutMembers(event.properties, properties),
    };
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
