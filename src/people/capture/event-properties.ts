import { withoutKeys } from "../../db/key-form.ts";
import { utf8Length } from "../../lib/encoding.ts";
import { isJsonObject, isNestedDeeperThan, type JsonObject, ownValue, parseJson } from "../../lib/json.ts";
import { parseTimestamp } from "../../lib/time.ts";
import { firstPresent, objectIn } from "./event-members.ts";

/** SQLite reads JSON of at most 1,000 levels, and an export adds levels around stored events. */
const EVENT_LEVELS_MAX = 900;
/** The most bytes of an event's properties (L1). */
const EVENT_PROPERTIES_BYTES_MAX = 256 * 1024;

/** The changes to a person's properties. They may be in the event's properties or beside them. */
export const CHANGE_NAMES = ["$set", "$set_once", "$unset"] as const;
/** The properties that hold the key of an SDK. They are never stored (L1). */
const KEY_PROPERTIES = ["token", "api_key"] as const;

/** The properties of an event as they are stored, with the changes from beside them. */
export interface EventProperties {
  readonly members: JsonObject;
  /** The same as JSON. */
  readonly text: string;
}

/**
 * Reads the properties of an event and adds `added`, without keys (L1). Numbers keep their digits. Returns a message when the
 * properties are too large.
 */
export function readProperties(event: JsonObject, added: JsonObject): EventProperties | string {
  const sent = objectIn(event, "properties");
  const changes = { ...outerChanges(event, sent), ...added };
  const isChanged = Object.keys(changes).length > 0 || KEY_PROPERTIES.some((name) => Object.hasOwn(sent, name));
  const members = isChanged ? withoutKeyProperties({ ...sent, ...changes }) : sent;
  if (isNestedDeeperThan(members, EVENT_LEVELS_MAX)) return `is nested deeper than ${EVENT_LEVELS_MAX} levels`;
  const text = JSON.stringify(members);
  const stored = withoutKeys(text);
  if (stored.length > EVENT_PROPERTIES_BYTES_MAX || utf8Length(stored) > EVENT_PROPERTIES_BYTES_MAX) {
    return `is larger than ${EVENT_PROPERTIES_BYTES_MAX} bytes`;
  }
  // The text of a JSON object is one without its keys, too.
  return { members: stored === text ? members : (parseJson(stored) as JsonObject), text: stored };
}

function withoutKeyProperties({ token: _token, api_key: _key, ...others }: JsonObject): JsonObject {
  return others;
}

/** Returns `$set`, `$set_once` and `$unset` from beside the properties, merged with those in the properties. */
function outerChanges(event: JsonObject, sent: JsonObject): JsonObject {
  const changes: Record<string, unknown> = {};
  for (const name of CHANGE_NAMES) {
    const outer = firstPresent(event, name);
    const inner = firstPresent(sent, name);
    if (outer === undefined) continue;
    if (inner === undefined) changes[name] = outer;
    else if (isJsonObject(inner) && isJsonObject(outer)) changes[name] = { ...inner, ...outer };
  }
  return changes;
}

/** Returns the members of `$set` or `$set_once`. Null when there are none. */
export function membersIn(properties: JsonObject, name: "$set" | "$set_once"): JsonObject | null {
  const members = ownValue(properties, name);
  return isJsonObject(members) && Object.keys(members).length > 0 ? members : null;
}

/** Returns the names in `$unset`, which is a list of names. Some clients send an object with the names as keys. Null for none. */
export function unsetNames(properties: JsonObject): readonly string[] | null {
  const unset = ownValue(properties, "$unset");
  const listed: readonly unknown[] = Array.isArray(unset) ? unset : isJsonObject(unset) ? Object.keys(unset) : [];
  return listed.length === 0 ? null : listed.filter((name) => typeof name === "string");
}

const CHANGES_CHARACTERS_MAX = 4_096;

/** Returns the texts of the event's changes to a person's properties. Null when they are long. */
export function textOfChanges(members: JsonObject): string | null {
  const changes = CHANGE_NAMES.map((name) => ownValue(members, name));
  const texts = changes.map((change) => (change === undefined || change === null ? "" : JSON.stringify(change)));
  return texts.reduce((sum, { length }) => sum + length, 0) > CHANGES_CHARACTERS_MAX ? null : texts.join("\n");
}

/** The earliest and the latest time that an export can write. */
const EARLIEST_EVENT_MS = Date.parse("0000-01-01T00:00:00Z");
const LATEST_EVENT_MS = Date.parse("9999-12-31T23:59:59.999Z");
const ISO_WITHOUT_ZONE = /^\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?$/;
const ISO_WITH_SHORT_ZONE = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?[+-]\d{2}$/;
const RFC_2822 = /^[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} /;
/** Seconds or milliseconds since the epoch. */
const EPOCH = /^\d{10}(\d{3})?$/;

const TIME_CHARACTERS_MAX = 100;

/** A number below this is in seconds, otherwise in milliseconds. */
const SECONDS_MAX = 1e11;
/** Clients that send an earlier number have no clock. */
const EARLIEST_NUMBER_MS = Date.UTC(2000, 0, 1);

/** Returns the time of a number (L5). Null when it is no time of a client. */
export function numericTime(value: number | null): number | null {
  if (value === null) return null;
  const atMs = value < SECONDS_MAX ? value * 1_000 : value;
  return atMs >= EARLIEST_NUMBER_MS && atMs <= LATEST_EVENT_MS ? atMs : null;
}

/** The times that a client sends for an event, in milliseconds. Null if it does not send one. */
export interface ClientTime {
  readonly timestampMs: number | null;
  /** The time between the event and the request. */
  readonly offsetMs: number | null;
  /** The client's clock when it sent the request. */
  readonly sentAtMs: number | null;
}

/** Parses a time in any format of PostHog's clients. Without a zone it is UTC. Returns null when it is not a time. */
export function parseClientTime(text: string): number | null {
  if (text.length > TIME_CHARACTERS_MAX) return null;
  const exact = parseTimestamp(text);
  if (exact !== null) return exact;
  if (ISO_WITHOUT_ZONE.test(text)) return parseTimestamp(text.length === 10 ? `${text}T00:00Z` : `${text}Z`);
  if (ISO_WITH_SHORT_ZONE.test(text)) return parseTimestamp(`${text}:00`);
  if (EPOCH.test(text)) return numericTime(Number(text));
  // Date.parse would accept almost any other text too.
  const atMs = RFC_2822.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(atMs) ? null : atMs;
}

/**
 * Returns when an event happened, by this service's clock. As in PostHog, this is now minus `offset`; otherwise the client's
 * timestamp, corrected by the difference of the clocks; otherwise now. The time may be in the future (L5).
 */
export function eventTimeMs(client: ClientTime, nowMs: number): number {
  let atMs = nowMs;
  if (client.offsetMs !== null) atMs = nowMs - client.offsetMs;
  else if (client.timestampMs !== null) {
    atMs = client.timestampMs - (client.sentAtMs === null ? 0 : client.sentAtMs - nowMs);
  }
  return atMs >= EARLIEST_EVENT_MS && atMs <= LATEST_EVENT_MS ? Math.trunc(atMs) : nowMs;
}
