import { identifier } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { parseUuid } from "../../lib/ids.ts";
import { isJsonObject, type JsonObject, numberText, numberValue, ownValue } from "../../lib/json.ts";
import { findLinkRejection, isSharedId, type Link } from "../claims.ts";
import { firstPresent, keyOf, objectIn } from "./event-members.ts";
import {
  CHANGE_NAMES,
  eventTimeMs,
  membersIn,
  numericTime,
  parseClientTime,
  readProperties,
  textOfChanges,
  unsetNames,
} from "./event-properties.ts";
import type { AddedProperties } from "./event-request.ts";

/** A distinct id or an event name, as PostHog's clients send them (W9). */
const nameOrId = lazy(() => identifier(200));

/** An analytics event of either protocol version: what Purser stores, and what it says about a person. */
export interface CapturedEvent {
  readonly uuid: string;
  readonly event: string;
  readonly distinctId: string;
  readonly timestampMs: number;
  /** JSON object, as sent. It includes `$set`, `$set_once` and `$unset`, even if they were sent beside it. */
  readonly properties: string;
  /** Whether it has `$process_person_profile: false` or a shared id. Then it creates no person and links nothing. */
  readonly isPersonless: boolean;
  readonly isIdentify: boolean;
  readonly isSignedIn: boolean;
  /** The other id of `$identify` or `$create_alias`. */
  readonly link: Link | null;
  /** The ids that properties name as other ids of the same person, whether or not they are linked. */
  readonly mentions: () => readonly Mention[];
  /** Null for none. */
  readonly set: JsonObject | null;
  readonly setOnce: JsonObject | null;
  readonly unset: readonly string[] | null;
  /** Returns the JSON texts of `set`, `setOnce` and `unset`. Null when they are long. */
  readonly changes: () => string | null;
}

interface Mention {
  readonly property: string;
  readonly id: string;
}

/** One event of a request: read, or rejected. The message says what is wrong and never contains a value of the caller. */
export type ReadEvent =
  | { readonly captured: CapturedEvent; readonly warning: string | null }
  | { readonly rejected: { readonly param: string; readonly message: string } };

/** The parts of a request that reading its events needs: when it was sent and received, new UUIDs, and the check of keys. */
export interface Arrival {
  readonly nowMs: number;
  readonly sentAtMs: number | null;
  readonly newUuid: () => string;
  /** Whether a text is the key of another environment than the request's. Null when no key was sent. */
  readonly isForeignKey: (text: string | null) => boolean;
}

/** The most UTF-16 units of a name of 200 code points. */
const NAME_UNITS_MAX = 2 * 200;

function rejectEvent(param: string, message: string): ReadEvent {
  return { rejected: { param, message } };
}

/** The rejection of an event that names the key of another environment (P1). */
export const foreignEvent: ReadEvent = rejectEvent("api_key", "must be of the environment of the request's key");

/**
 * Returns a name or id as text. PostHog's clients also send numbers as ids, whose digits are used. Returns a message when it is
 * invalid.
 */
function readName(value: unknown, types: string): { text: string } | { reason: string } {
  const text = typeof value === "string" ? value : types === STRING ? null : numberText(value);
  if (text === null) return { reason: `must be ${types}` };
  if (PLAIN_NAME.test(text)) return { text };
  if (text.length > NAME_UNITS_MAX) return { reason: "must have at most 200 code points" };
  const issue = nameOrId.safeParse(text).error?.issues[0];
  return issue === undefined ? { text } : { reason: issue.message };
}

/** Most names. They are valid, and need no slower check. */
const PLAIN_NAME = /^[ -~]{1,200}$/;
const STRING = "a string";
const STRING_OR_NUMBER = "a string or a number";

/** Reads an event. For a v1 event, `added` returns the properties that v0 clients send. Does not throw. */
export function readEvent(sent: unknown, arrival: Arrival, added?: AddedProperties): ReadEvent {
  if (!isJsonObject(sent)) return rejectEvent("", "must be an object");
  if (arrival.isForeignKey(keyOf(sent))) return foreignEvent;
  const sentProperties = firstPresent(sent, "properties");
  if (sentProperties !== undefined && !isJsonObject(sentProperties))
    return rejectEvent("properties", "must be an object");
  const event = readName(ownValue(sent, "event"), STRING);
  if ("reason" in event) return rejectEvent("event", event.reason);
  const distinctId = readName(readOwnId(sent), STRING_OR_NUMBER);
  if ("reason" in distinctId) return rejectEvent("distinct_id", distinctId.reason);
  const uuid = readUuid(sent, added === undefined ? arrival.newUuid : () => null);
  if (uuid === null) return rejectEvent("uuid", "must be a UUID");

  const properties = readProperties(sent, added?.(sent) ?? {});
  if (typeof properties === "string") return rejectEvent("properties", properties);
  const { members } = properties;
  const isShared = isSharedId(distinctId.text);
  const hasNoProfile = ownValue(members, "$process_person_profile") === false;
  const { link, warning } = hasNoProfile ? noLink : readLink(event.text, members);
  const captured = {
    uuid,
    event: event.text,
    distinctId: distinctId.text,
    timestampMs: readTime(sent, members, arrival),
    properties: properties.text,
    isPersonless: isShared || hasNoProfile,
    isIdentify: event.text === "$identify",
    isSignedIn: ownValue(members, "$is_identified") === true,
    link: isShared ? null : link,
    mentions: () => readMentions(members, distinctId.text),
    set: membersIn(members, "$set"),
    setOnce: membersIn(members, "$set_once"),
    unset: unsetNames(members),
    changes: () => textOfChanges(members),
  };
  return { captured, warning: isShared && link !== null ? findLinkRejection(distinctId.text, link) : warning };
}

/** Returns the event's own id, as it was sent. */
const readOwnId = (event: JsonObject): unknown =>
  firstPresent(event, "distinct_id", "$distinct_id") ?? firstPresent(objectIn(event, "properties"), "distinct_id");

/** Returns the event's UUID, or a new UUID when it is empty or absent. Null when it is malformed. */
function readUuid(event: JsonObject, newUuid: () => string | null): string | null {
  const uuid = firstPresent(event, "uuid") ?? "";
  if (typeof uuid !== "string") return null;
  return uuid === "" ? newUuid() : parseUuid(uuid);
}

const noLink = { link: null, warning: null };

/** Returns the link from the event's own id to another id. If the other id is invalid, the event is stored with a warning. */
function readLink(event: string, properties: JsonObject): Pick<CapturedEvent, "link"> & { warning: string | null } {
  const via = event === "$identify" ? "identify" : event === "$create_alias" ? "alias" : null;
  const key = via === "identify" ? "$anon_distinct_id" : "alias";
  const sent = via === null ? undefined : firstPresent(properties, key);
  if (via === null || sent === undefined) return noLink;
  const other = readName(sent, STRING_OR_NUMBER);
  if ("reason" in other) return { link: null, warning: `properties.${key} ${other.reason}: nothing was linked` };
  return { link: { otherId: other.text, via }, warning: null };
}

/** The properties in which SDKs name an id (E2). */
const ID_PROPERTIES = ["$anon_distinct_id", "alias", "$device_id", "$user_id", "distinct_id"];

function readMentions(properties: JsonObject, distinctId: string): Mention[] {
  return ID_PROPERTIES.flatMap((property) => {
    const other = readName(ownValue(properties, property), STRING_OR_NUMBER);
    return "reason" in other || other.text === distinctId ? [] : [{ property, id: other.text }];
  });
}

/** Returns the texts that an event names as ids: its own id, and those in its properties. Some may be invalid. */
export function idsNamedBy(event: unknown): string[] {
  if (!isJsonObject(event)) return [];
  const named: string[] = [];
  for (const name of OWN_ID) addId(named, ownValue(event, name));
  const properties = objectIn(event, "properties");
  for (const name of ID_PROPERTIES) addId(named, ownValue(properties, name));
  return named;
}

/** Each link, `$set`, `$set_once` and `$unset` counts this much, beside the names in it. */
const EVENT_CHANGES = 10;

/**
 * Returns how many changes to people an event asks for (L1): one for each name that it sets or unsets, and
 * ten for each `$set`, `$set_once`, `$unset` and link.
 */
export function countPeopleChanges(event: unknown): number {
  if (!isJsonObject(event)) return 0;
  const name = ownValue(event, "event");
  let changes = name === "$identify" || name === "$create_alias" ? EVENT_CHANGES : 0;
  for (const owner of [event, objectIn(event, "properties")]) {
    for (const changed of CHANGE_NAMES) {
      const value = ownValue(owner, changed);
      if (typeof value === "object" && value !== null) changes += EVENT_CHANGES + Object.keys(value).length;
    }
  }
  return changes;
}

const OWN_ID = ["distinct_id", "$distinct_id"];

function addId(ids: string[], value: unknown): void {
  const text = typeof value === "string" ? value : numberText(value);
  if (text !== null && text.length <= NAME_UNITS_MAX) ids.push(text);
}

function readTime(event: JsonObject, properties: JsonObject, arrival: Arrival): number {
  const timestamp = ownValue(event, "timestamp");
  return eventTimeMs(
    {
      timestampMs: typeof timestamp === "string" ? parseClientTime(timestamp) : numericTime(numberValue(timestamp)),
      offsetMs: numberValue(ownValue(event, "offset")),
      sentAtMs: ownValue(properties, "$ignore_sent_at") === true ? null : arrival.sentAtMs,
    },
    arrival.nowMs,
  );
}
