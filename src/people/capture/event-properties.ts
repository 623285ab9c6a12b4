import { utf8 } from "../../lib/encoding.ts";
import { JsonBytes, Names, type Span } from "../../lib/json-bytes.ts";
import { parseTimestamp } from "../../lib/time.ts";
import { type Members, membersAt, namesAt } from "../id-properties.ts";
import { type EventFields, firstPresent, type ReadEventFields, readFields } from "./fields.ts";

/** SQLite reads JSON of at most 1,000 levels, and an export adds levels around stored events. */
const EVENT_LEVELS_MAX = 900;
/** The most bytes of an event's properties (L1). */
const BYTES_MAX = 256 * 1024;

const CHANGES_BYTES_MAX = 4_096;

/** Members that may also stand beside the properties. */
export const BESIDE = ["$set", "$set_once", "$unset"] as const;
/** The members of the properties that Purser reads, or that a protocol version adds. */
export const PROPERTIES = new Names([
  ...["distinct_id", "$process_person_profile", "$anon_distinct_id", "alias", "$ignore_sent_at", ...BESIDE],
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
  ],
]);

/** The properties of an event: their text as sent, with the members from beside them. */
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

  /** A member that is not null. */
  find(name: string): Span | undefined {
    return firstPresent(this.#json, this.#fields, name);
  }

  get json(): JsonBytes {
    return this.#json;
  }

  is(name: string, text: string): boolean {
    const span = this.find(name);
    return span !== undefined && span.end - span.start === text.length && this.#json.text(span) === text;
  }

  members(name: string): Members | null {
    const span = this.find(name);
    return span === undefined ? null : membersAt(this.#json, span.start);
  }

  /** The texts of the event's changes to a person's properties. Null when they are long. */
  changes(): string | null {
    const spans = BESIDE.map((name) => this.find(name));
    const bytes = spans.reduce((sum, span) => sum + (span === undefined ? 0 : span.end - span.start), 0);
    if (bytes > CHANGES_BYTES_MAX) return null;
    return spans.map((span) => (span === undefined ? "" : this.#json.text(span))).join("\n");
  }

  /** `$unset` is a list of names. Some clients send an object with the names as keys. */
  unset(): Members | null {
    const span = this.find("$unset");
    return span === undefined ? null : (namesAt(this.#json, span.start) ?? membersAt(this.#json, span.start));
  }
}

const tooLargeProperties = `is larger than ${BYTES_MAX} bytes`;

/**
 * Reads the properties of an event and adds `added`, JSON texts by name. When a name that Purser reads occurs twice, only the last
 * value is kept, because that one is interpreted. Returns a message when the properties are invalid.
 */
export function readProperties(
  json: JsonBytes,
  { fields, properties }: ReadEventFields,
  added: ReadonlyMap<string, string>,
): EventProperties | string {
  const given = properties === null ? undefined : fields.get("properties");
  const sent = [given, ...BESIDE.map((name) => fields.get(name))];
  const lengths = [
    ...sent.map((span) => (span === undefined ? 0 : span.end - span.start)),
    ...[...added.values()].map((text) => text.length),
  ];
  const bytes = lengths.reduce((sum, length) => sum + length, 0);
  if (bytes > BYTES_MAX) return tooLargeProperties;
  const within = properties?.fields ?? new Map<string, Span>();
  const changes = new Map([...besideTexts(json, fields, within), ...added]);
  const isRepeated = properties?.isRepeated ?? false;
  if (changes.size === 0 && given !== undefined && !isRepeated) {
    return (properties?.levels ?? 0) > EVENT_LEVELS_MAX ? tooDeep : new EventProperties(json, within, given);
  }
  const whole = new JsonBytes(utf8(withMembers(json, given, within, changes, isRepeated)));
  const read = readFields(whole, 0, PROPERTIES);
  if (read.end > BYTES_MAX) return tooLargeProperties;
  return read.levels > EVENT_LEVELS_MAX
    ? tooDeep
    : new EventProperties(whole, read.fields, { start: 0, end: read.end });
}

const tooDeep = `is nested deeper than ${EVENT_LEVELS_MAX} levels`;

/** `$set`, `$set_once` and `$unset` from beside the properties, so that no part of the event is lost. */
function besideTexts(json: JsonBytes, fields: EventFields, within: EventFields): [string, string][] {
  return BESIDE.flatMap((name): [string, string][] => {
    const beside = firstPresent(json, fields, name);
    const inner = firstPresent(json, within, name);
    if (beside === undefined) return [];
    if (inner === undefined) return [[name, json.text(beside)]];
    const areObjects = [beside, inner].every(({ start }) => json.kindAt(start) === "object");
    return areObjects ? [[name, mergedText(json, inner, beside)]] : [];
  });
}

/** The members of both objects. `second` wins for a name in both. */
function mergedText(json: JsonBytes, first: Span, second: Span): string {
  const texts = new Map<string, string>();
  for (const { start } of [first, second]) membersAt(json, start)?.((name, text) => texts.set(name, text));
  return objectText(texts);
}

/** The text of an object. */
function objectText(members: ReadonlyMap<string, string>): string {
  return `{${Array.from(members, ([name, text]) => `${JSON.stringify(name)}:${text}`).join()}}`;
}

/** The text of an object with changed members. The others stay as sent, only the last one for each name that Purser reads. */
function withMembers(
  json: JsonBytes,
  given: Span | undefined,
  fields: EventFields,
  changes: ReadonlyMap<string, string>,
  isRepeated: boolean,
): string {
  const changed = objectText(changes);
  if (given === undefined || json.isEmptyAt(given.start)) return changed;
  const isNew = !isRepeated && [...changes.keys()].every((name) => !fields.has(name));
  if (isNew) return `${json.text({ start: given.start, end: given.end - 1 })},${changed.slice(1)}`;
  const kept: string[] = [];
  json.members(given.start, (name, valueStart) => {
    const end = json.skip(valueStart);
    const known = json.find(PROPERTIES, name);
    const isKept = known === undefined || (!changes.has(known) && fields.get(known)?.start === valueStart);
    if (isKept) kept.push(json.text({ start: name.start, end }));
    return end;
  });
  if (kept.length === 0) return changed;
  return changes.size === 0 ? `{${kept.join()}}` : `{${kept.join()},${changed.slice(1)}`;
}

/** The times that an export can write. */
const EARLIEST_EVENT_MS = Date.parse("0000-01-01T00:00:00Z");
const LATEST_EVENT_MS = Date.parse("9999-12-31T23:59:59.999Z");
const ISO_WITHOUT_ZONE = /^\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?$/;
const ISO_WITH_SHORT_ZONE = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?[+-]\d{2}$/;
const RFC_2822 = /^[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} /;
/** Seconds or milliseconds since the epoch. */
const EPOCH = /^\d{10}(\d{3})?$/;

/** The times that a client sends for an event, in milliseconds. Null if it does not send one. */
export interface ClientTime {
  readonly timestampMs: number | null;
  /** The time between the event and the request. */
  readonly offsetMs: number | null;
  /** The client's clock when it sent the request. */
  readonly sentAtMs: number | null;
}

/** A time in any format of PostHog's clients. Without a zone it is UTC. Null when it is not a time. */
export function parseClientTime(text: string): number | null {
  const exact = parseTimestamp(text);
  if (exact !== null) return exact;
  if (ISO_WITHOUT_ZONE.test(text)) return parseTimestamp(text.length === 10 ? `${text}T00:00Z` : `${text}Z`);
  if (ISO_WITH_SHORT_ZONE.test(text)) return parseTimestamp(`${text}:00`);
  if (EPOCH.test(text)) return Number(text.padEnd(13, "0"));
  // Outside of RFC 2822, Date.parse accepts almost any text.
  const atMs = RFC_2822.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(atMs) ? null : atMs;
}

/**
 * When an event happened, by this service's clock, computed like PostHog: now minus `offset`; else the client's timestamp,
 * corrected by the difference of the clocks; else now. A time in the future is kept (L5).
 */
export function eventTimeMs(client: ClientTime, nowMs: number): number {
  let atMs = nowMs;
  if (client.offsetMs !== null) atMs = nowMs - client.offsetMs;
  else if (client.timestampMs !== null) {
    atMs = client.timestampMs - (client.sentAtMs === null ? 0 : client.sentAtMs - nowMs);
  }
  if (atMs > LATEST_EVENT_MS) return nowMs;
  return atMs >= EARLIEST_EVENT_MS ? Math.trunc(atMs) : 0;
}
