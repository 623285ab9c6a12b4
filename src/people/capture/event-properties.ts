import { jsonWithoutKeys } from "../../db/key-form.ts";
import { utf8 } from "../../lib/encoding.ts";
import { JsonBytes, Names, type Span } from "../../lib/json-bytes.ts";
import { parseTimestamp } from "../../lib/time.ts";
import { type Members, membersAt, namesAt } from "../id-properties.ts";
import { type EventFields, firstPresent, type ReadEventFields, readFields } from "./fields.ts";

/** SQLite reads JSON of at most 1,000 levels, and an export adds levels around stored events. */
const EVENT_LEVELS_MAX = 900;
/** The most bytes of an event's properties (L1). */
const EVENT_PROPERTIES_BYTES_MAX = 256 * 1024;

const CHANGES_BYTES_MAX = 4_096;

/** The changes to a person's properties. They may be in the event's properties or beside them. */
export const CHANGE_NAMES = ["$set", "$set_once", "$unset"] as const;
/** The names in the properties that Purser reads, or that a protocol version adds. */
export const PROPERTY_NAMES = new Names([
  ...["distinct_id", "$process_person_profile", "$anon_distinct_id", "alias", "$ignore_sent_at", ...CHANGE_NAMES],
  ...[
    "$is_identified",
    "$device_id",
    "$user_id",
    "$lib",
    "$lib_version",
    "$session_id",
    "$window_id",
    "$product_tour_id",
    "$cookieless_mode",
    "token",
    "api_key",
  ],
]);
/** The properties that hold the key of an SDK. They are never stored (L1). */
const KEY_PROPERTIES = ["token", "api_key"] as const;

/** The properties of an event: their text as sent, and with the changes from beside them. */
export class EventProperties {
  readonly #json: JsonBytes;
  readonly #fields: EventFields;
  readonly #whole: Span;

  constructor(json: JsonBytes, fields: EventFields, whole: Span) {
    this.#json = json;
    this.#fields = fields;
    this.#whole = whole;
  }

  get text(): string {
    return this.#json.text(this.#whole);
  }

  /** Returns a member that is not null. */
  find(name: string): Span | undefined {
    return firstPresent(this.#json, this.#fields, name);
  }

  get json(): JsonBytes {
    return this.#json;
  }

  /** Returns whether the JSON text of a member is `text`. */
  equals(name: string, text: string): boolean {
    const span = this.find(name);
    return span !== undefined && span.end - span.start === text.length && this.#json.text(span) === text;
  }

  members(name: string): Members | null {
    const span = this.find(name);
    return span === undefined ? null : membersAt(this.#json, span.start);
  }

  /** Returns the texts of the event's changes to a person's properties. Null when they are long. */
  changes(): string | null {
    const spans = CHANGE_NAMES.map((name) => this.find(name));
    const bytes = spans.reduce((sum, span) => sum + (span === undefined ? 0 : span.end - span.start), 0);
    if (bytes > CHANGES_BYTES_MAX) return null;
    return spans.map((span) => (span === undefined ? "" : this.#json.text(span))).join("\n");
  }

  /** Returns the names in `$unset`, which is a list of names. Some clients send an object with the names as keys. */
  unset(): Members | null {
    const span = this.find("$unset");
    return span === undefined ? null : (namesAt(this.#json, span.start) ?? membersAt(this.#json, span.start));
  }
}

const tooLargeProperties = `is larger than ${EVENT_PROPERTIES_BYTES_MAX} bytes`;

/**
 * Reads the properties of an event and adds `added`, which are JSON texts by name. When a name that Purser reads occurs
 * twice, only the last value is stored, because Purser uses that value. Returns a message when the properties are invalid.
 */
export function readProperties(
  json: JsonBytes,
  { fields, properties }: ReadEventFields,
  added: ReadonlyMap<string, string>,
): EventProperties | string {
  const sentSpan = properties === null ? undefined : fields.get("properties");
  const spans = [sentSpan, ...CHANGE_NAMES.map((name) => fields.get(name))];
  const lengths = [
    ...spans.map((span) => (span === undefined ? 0 : span.end - span.start)),
    ...[...added.values()].map((text) => text.length),
  ];
  const bytes = lengths.reduce((sum, length) => sum + length, 0);
  if (bytes > EVENT_PROPERTIES_BYTES_MAX) return tooLargeProperties;
  const innerFields = properties?.fields ?? new Map<string, Span>();
  const changes = new Map([...outerChanges(json, fields, innerFields), ...added]);
  const isRepeated = properties?.isRepeated ?? false;
  const isChanged = changes.size > 0 || isRepeated || KEY_PROPERTIES.some((name) => innerFields.has(name));
  const sentText = sentSpan === undefined ? "{}" : json.text(sentSpan);
  const text = isChanged ? withMembers(json, sentSpan, innerFields, changes, isRepeated) : sentText;
  const stored = jsonWithoutKeys(text);
  if (stored === sentText && sentSpan !== undefined) {
    return (properties?.levels ?? 0) > EVENT_LEVELS_MAX ? tooDeep : new EventProperties(json, innerFields, sentSpan);
  }
  const whole = new JsonBytes(utf8(stored));
  const read = readFields(whole, 0, PROPERTY_NAMES);
  if (read.end > EVENT_PROPERTIES_BYTES_MAX) return tooLargeProperties;
  return read.levels > EVENT_LEVELS_MAX
    ? tooDeep
    : new EventProperties(whole, read.fields, { start: 0, end: read.end });
}

const tooDeep = `is nested deeper than ${EVENT_LEVELS_MAX} levels`;

/** Returns `$set`, `$set_once` and `$unset` from beside the properties, merged with those in the properties. */
function outerChanges(json: JsonBytes, fields: EventFields, innerFields: EventFields): [string, string][] {
  return CHANGE_NAMES.flatMap((name): [string, string][] => {
    const outer = firstPresent(json, fields, name);
    const inner = firstPresent(json, innerFields, name);
    if (outer === undefined) return [];
    if (inner === undefined) return [[name, json.text(outer)]];
    const areObjects = [outer, inner].every(({ start }) => json.kindAt(start) === "object");
    return areObjects ? [[name, mergedText(json, inner, outer)]] : [];
  });
}

/** Returns an object with the members of both objects. For a name in both, the value of `second` counts. */
function mergedText(json: JsonBytes, first: Span, second: Span): string {
  const texts = new Map<string, string>();
  for (const { start } of [first, second]) membersAt(json, start)?.((name, text) => texts.set(name, text));
  return objectText(texts);
}

/** Returns the JSON text of an object. */
function objectText(members: ReadonlyMap<string, string>): string {
  return `{${Array.from(members, ([name, text]) => `${JSON.stringify(name)}:${text}`).join()}}`;
}

/**
 * Returns the JSON text of an object with changed members. Others stay as sent, but a name that Purser reads keeps only its
 * last value.
 */
function withMembers(
  json: JsonBytes,
  sentSpan: Span | undefined,
  fields: EventFields,
  changes: ReadonlyMap<string, string>,
  isRepeated: boolean,
): string {
  const changed = objectText(changes);
  if (sentSpan === undefined || json.isEmptyAt(sentSpan.start)) return changed;
  const isNew =
    !isRepeated &&
    KEY_PROPERTIES.every((name) => !fields.has(name)) &&
    [...changes.keys()].every((name) => !fields.has(name));
  if (isNew) return `${json.text({ start: sentSpan.start, end: sentSpan.end - 1 })},${changed.slice(1)}`;
  const keptMembers: string[] = [];
  json.members(sentSpan.start, (name, valueStart) => {
    const end = json.skip(valueStart);
    const knownName = json.find(PROPERTY_NAMES, name);
    const isKey = (KEY_PROPERTIES as readonly (string | undefined)[]).includes(knownName);
    const isKept =
      knownName === undefined || (!isKey && !changes.has(knownName) && fields.get(knownName)?.start === valueStart);
    if (isKept) keptMembers.push(json.text({ start: name.start, end }));
    return end;
  });
  if (keptMembers.length === 0) return changed;
  return changes.size === 0 ? `{${keptMembers.join()}}` : `{${keptMembers.join()},${changed.slice(1)}`;
}

/** The earliest and the latest time that an export can write. */
const EARLIEST_EVENT_MS = Date.parse("0000-01-01T00:00:00Z");
const LATEST_EVENT_MS = Date.parse("9999-12-31T23:59:59.999Z");
const ISO_WITHOUT_ZONE = /^\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?$/;
const ISO_WITH_SHORT_ZONE = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?[+-]\d{2}$/;
const RFC_2822 = /^[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} /;
/** Seconds or milliseconds since the epoch. */
const EPOCH = /^\d{10}(\d{3})?$/;

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
