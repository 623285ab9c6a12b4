import { parseUuid } from "../../lib/ids.ts";
import { numberText, numberValue, parseJson } from "../../lib/json.ts";
import { type JsonBytes, Names, type Span } from "../../lib/json-bytes.ts";
import { flawOfLink, isSharedId, type Link } from "../claims.ts";
import type { Members } from "../id-properties.ts";
import { nameOrId } from "../schemas.ts";
import {
  CHANGE_NAMES,
  type EventProperties,
  eventTimeMs,
  numericTime,
  PROPERTY_NAMES,
  parseClientTime,
  readProperties,
} from "./event-properties.ts";
import { type EventFields, firstPresent, keyOf, namesWithKey, readEventFields } from "./fields.ts";

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
  readonly set: Members | null;
  readonly setOnce: Members | null;
  readonly unset: Members | null;
  /** The JSON texts of `set`, `setOnce` and `unset`. Empty when there are none, null when they are long. */
  readonly changes: string | null;
}

interface Mention {
  readonly property: string;
  readonly id: string;
}

/** One event of a request: read, or refused. The message says what is wrong and never contains a value of the caller. */
export type ReadEvent =
  | { readonly captured: CapturedEvent; readonly warning: string | null }
  | { readonly refused: { readonly param: string; readonly message: string } };

/** The parts of a request that reading its events needs: when it was sent and received, new UUIDs, and the check of keys. */
export interface Arrival {
  readonly nowMs: number;
  readonly sentAtMs: number | null;
  readonly newUuid: () => string;
  /** Whether a text is the key of another environment than the request's. */
  readonly isForeignKey: (text: string) => boolean;
}

/** Returns the properties that a protocol version adds to an event, as JSON texts by name. */
export type AddedProperties = (json: JsonBytes, fields: EventFields) => ReadonlyMap<string, string>;

/** The longest JSON string for a name of 200 code points: each may be escaped as two surrogates. */
const NAME_BYTES_MAX = 200 * 12 + 2;

const EVENT_NAMES = namesWithKey(
  ...["event", "distinct_id", "$distinct_id", "uuid", "timestamp", "offset", ...CHANGE_NAMES],
  ...["session_id", "window_id", "options"],
);

function refuseEvent(param: string, message: string): ReadEvent {
  return { refused: { param, message } };
}

/** The refusal of an event that names the key of another environment (P1). */
export const foreignEvent: ReadEvent = refuseEvent("api_key", "must be of the environment of the request's key");

/**
 * Returns a name or id as text. PostHog's clients also send numbers, whose digits are used. Returns a message when it is
 * invalid.
 */
function readName(json: JsonBytes, span: Span | undefined, types: string): { text: string } | { flaw: string } {
  if (span === undefined) return { flaw: `must be ${types}` };
  if (span.end - span.start > NAME_BYTES_MAX) return { flaw: "must have at most 200 code points" };
  const isString = json.kindAt(span.start) === "string";
  const text = isString ? json.string(span) : types === STRING ? null : numberText(parseJson(json.text(span)));
  if (text === null) return { flaw: `must be ${types}` };
  const issue = nameOrId.safeParse(text).error?.issues[0];
  return issue === undefined ? { text } : { flaw: issue.message };
}

const STRING = "a string";
const STRING_OR_NUMBER = "a string or a number";

/** Reads the event at `start`. For a v1 event, `added` returns the properties that v0 clients send. Does not throw. */
export function readEvent(json: JsonBytes, start: number, arrival: Arrival, added?: AddedProperties): ReadEvent {
  if (json.kindAt(start) !== "object") return refuseEvent("", "must be an object");
  const read = readEventFields(json, start, EVENT_NAMES, PROPERTY_NAMES);
  const { fields } = read;
  if (arrival.isForeignKey(keyOf(json, read) ?? "")) return foreignEvent;
  const isAbsent = firstPresent(json, fields, "properties") === undefined;
  if (!isAbsent && read.properties === null) return refuseEvent("properties", "must be an object");
  const event = readName(json, fields.get("event"), STRING);
  if ("flaw" in event) return refuseEvent("event", event.flaw);
  const idSpan =
    firstPresent(json, fields, "distinct_id", "$distinct_id") ??
    (read.properties === null ? undefined : firstPresent(json, read.properties.fields, "distinct_id"));
  const distinctId = readName(json, idSpan, STRING_OR_NUMBER);
  if ("flaw" in distinctId) return refuseEvent("distinct_id", distinctId.flaw);
  const uuid = readUuid(json, fields, added === undefined ? arrival.newUuid : () => null);
  if (uuid === null) return refuseEvent("uuid", "must be a UUID");

  const properties = readProperties(json, read, added?.(json, fields) ?? new Map());
  if (typeof properties === "string") return refuseEvent("properties", properties);
  const isShared = isSharedId(distinctId.text);
  const isPersonless = isShared || properties.equals("$process_person_profile", "false");
  const { link, warning } = properties.equals("$process_person_profile", "false")
    ? noLink
    : readLink(event.text, properties);
  const [set, setOnce, unset] = [properties.members("$set"), properties.members("$set_once"), properties.unset()];
  const captured = {
    uuid,
    event: event.text,
    distinctId: distinctId.text,
    timestampMs: readTime(json, fields, properties, arrival),
    properties: properties.text,
    isPersonless,
    isIdentify: event.text === "$identify",
    isSignedIn: properties.equals("$is_identified", "true"),
    link: isShared ? null : link,
    mentions: () => readMentions(properties, distinctId.text),
    set,
    setOnce,
    unset,
    changes: set === null && setOnce === null && unset === null ? "" : properties.changes(),
  };
  return { captured, warning: isShared && link !== null ? flawOfLink(distinctId.text, link) : warning };
}

/** Returns the event's UUID, or a new UUID when it is empty or absent. Null when it is malformed. */
function readUuid(json: JsonBytes, fields: EventFields, newUuid: () => string | null): string | null {
  const span = firstPresent(json, fields, "uuid");
  if (span === undefined) return newUuid();
  if (json.kindAt(span.start) !== "string" || span.end - span.start > NAME_BYTES_MAX) return null;
  const text = json.string(span);
  return text === "" ? newUuid() : parseUuid(text);
}

const noLink = { link: null, warning: null };

/** Returns the link from the event's own id to another id. If the other id is invalid, the event is stored with a warning. */
function readLink(
  event: string,
  properties: EventProperties,
): Pick<CapturedEvent, "link"> & { warning: string | null } {
  const via = event === "$identify" ? "identify" : event === "$create_alias" ? "alias" : null;
  const key = via === "identify" ? "$anon_distinct_id" : "alias";
  const span = via === null ? undefined : properties.find(key);
  if (via === null || span === undefined) return noLink;
  const other = readName(properties.json, span, STRING_OR_NUMBER);
  if ("flaw" in other) return { link: null, warning: `properties.${key} ${other.flaw}: nothing was linked` };
  return { link: { otherId: other.text, via }, warning: null };
}

/** The properties in which SDKs name an id (E2). */
const ID_PROPERTIES = ["$anon_distinct_id", "alias", "$device_id", "$user_id", "distinct_id"];

function readMentions(properties: EventProperties, distinctId: string): Mention[] {
  return ID_PROPERTIES.flatMap((property) => {
    const other = readName(properties.json, properties.find(property), STRING_OR_NUMBER);
    return "flaw" in other || other.text === distinctId ? [] : [{ property, id: other.text }];
  });
}

/** The most ids that an event names. */
export const IDS_OF_EVENT_MAX = 2 + ID_PROPERTIES.length;

const OWN_ID = new Names(["distinct_id", "$distinct_id", "properties"]);
const OTHER_IDS = new Names(ID_PROPERTIES);

/** Returns the valid ids that the event at `start` names: its own id, and the ids in its properties. */
export function idsNamedAt(json: JsonBytes, start: number): string[] {
  if (json.kindAt(start) !== "object") return [];
  const { fields, properties } = readEventFields(json, start, OWN_ID, OTHER_IDS);
  const idFields = [...fields, ...(properties?.fields ?? [])].filter(([name]) => name !== "properties");
  return idFields.flatMap(([, span]) => {
    const id = readName(json, span, STRING_OR_NUMBER);
    return "flaw" in id ? [] : [id.text];
  });
}

const TIME_BYTES_MAX = 100;

function readTime(json: JsonBytes, fields: EventFields, properties: EventProperties, arrival: Arrival): number {
  const scalar = (name: string): unknown => {
    const span = fields.get(name);
    if (span === undefined || span.end - span.start > TIME_BYTES_MAX) return undefined;
    return json.kindAt(span.start) === "string" ? json.string(span) : parseJson(json.text(span));
  };
  const timestamp = scalar("timestamp");
  return eventTimeMs(
    {
      timestampMs: typeof timestamp === "string" ? parseClientTime(timestamp) : numericTime(numberValue(timestamp)),
      offsetMs: numberValue(scalar("offset")),
      sentAtMs: properties.equals("$ignore_sent_at", "true") ? null : arrival.sentAtMs,
    },
    arrival.nowMs,
  );
}
