import { invalid } from "../../errors.ts";
import { type JsonBytes, Names, type Span } from "../../lib/json-bytes.ts";
import { assertEvents, type ScannedBody } from "./client-body.ts";
import type { AddedProperties } from "./event.ts";
import { numericTime, parseClientTime } from "./event-properties.ts";
import { type EventFields, firstPresent, readFields } from "./fields.ts";

/** A request of PostHog's v0 protocol: `/batch/`, `/e/`, `/capture/` and others. */
export interface CaptureRequest {
  readonly body: ScannedBody;
  readonly sentAtMs: number | null;
}

const SENT_AT_BYTES_MAX = 100;

/**
 * Reads a v0 request. `sentAtQuery` is `_` of the query string. Throws `invalid_request`,
 * `payload_too_large`.
 */
export function readCaptureRequest(body: ScannedBody, sentAtQuery: string | undefined): CaptureRequest {
  assertEvents(body);
  const queryTimeMs =
    sentAtQuery !== undefined && /^\d{1,15}$/.test(sentAtQuery) ? numericTime(Number(sentAtQuery)) : null;
  return { body, sentAtMs: sentAtOf(body, queryTimeMs) };
}

/** Returns the client's time when it sent the request: `sent_at` of the body, otherwise `fallbackMs`. */
function sentAtOf({ json, envelope }: ScannedBody, fallbackMs: number | null): number | null {
  const span = envelope === null ? undefined : firstPresent(json, envelope.fields, "sent_at");
  if (span === undefined || json.kindAt(span.start) !== "string") return fallbackMs;
  return span.end - span.start > SENT_AT_BYTES_MAX ? null : parseClientTime(json.string(span));
}

/** The headers that a v1 client sends instead of fields of each event. */
export interface V1Headers {
  /** `name/version`. v1 clients do not send `$lib` and `$lib_version`. */
  readonly sdkInfo: string | undefined;
  /** The client's clock when it sent the request. */
  readonly requestTimestamp: string | undefined;
}

/** A request of PostHog's v1 protocol. */
export interface V1Request {
  readonly body: ScannedBody;
  /** The UUID of each event, as it was sent. The response uses them as keys. */
  readonly uuids: readonly string[];
  readonly sentAtMs: number | null;
  readonly added: AddedProperties;
}

const UUID_NAME = new Names(["uuid"]);
const UUID_BYTES_MAX = 200;
const OPTION_NAMES = new Names([
  "product_tour_id",
  "cookieless_mode",
  "disable_skew_correction",
  "process_person_profile",
]);
/** The flags of a v1 event, and the properties that v0 clients send instead. */
const FLAGS = [
  ["cookieless_mode", "$cookieless_mode"],
  ["disable_skew_correction", "$ignore_sent_at"],
  ["process_person_profile", "$process_person_profile"],
] as const;
const BOOLEANS: ReadonlyMap<string, string> = new Map([
  ...["true", '"true"', '"1"', "1"].map((text) => [text, "true"] as const),
  ...["false", '"false"', '"0"', "0"].map((text) => [text, "false"] as const),
]);

/** Reads a v1 request (`POST /i/v1/analytics/events`), but not yet its events. Throws `invalid_request`. */
export function readV1Request(body: ScannedBody, headers: V1Headers): V1Request {
  const { json, envelope, events } = body;
  if (envelope === null) throw invalid("body", "must be an object");
  const batch = firstPresent(json, envelope.fields, "batch");
  if (batch === undefined) throw invalid("batch", "must be a list of events");
  assertEvents(body);
  const uuids = events.map(({ start }, index) => {
    if (json.kindAt(start) !== "object") throw invalid(`batch[${index}]`, "must be an object");
    const span = readFields(json, start, UUID_NAME).fields.get("uuid");
    if (span === undefined || json.kindAt(span.start) !== "string") {
      throw invalid(`batch[${index}].uuid`, "must be a string");
    }
    if (span.end - span.start > UUID_BYTES_MAX) throw invalid(`batch[${index}].uuid`, "must be a UUID");
    return json.string(span);
  });
  const sentAt = headers.requestTimestamp;
  const sentAtMs = sentAt === undefined ? null : parseClientTime(sentAt);
  return { body, uuids, sentAtMs, added: addedBy(headers) };
}

/** Returns the function that adds to `properties` what v0 clients send there and v1 clients elsewhere. */
function addedBy(headers: V1Headers): AddedProperties {
  const [library, version] = (headers.sdkInfo ?? "").split("/");
  const headerProperties: [string, string][] = [];
  if (library !== undefined && library !== "") headerProperties.push(["$lib", JSON.stringify(library)]);
  if (version !== undefined) headerProperties.push(["$lib_version", JSON.stringify(version)]);
  return (json, fields) => {
    const added = new Map(headerProperties);
    const add = (property: string, span: Span | undefined) => {
      if (span !== undefined) added.set(property, json.text(span));
    };
    add("$session_id", firstPresent(json, fields, "session_id"));
    add("$window_id", firstPresent(json, fields, "window_id"));
    const options = optionsOf(json, fields);
    add("$product_tour_id", firstPresent(json, options, "product_tour_id"));
    for (const [option, property] of FLAGS) {
      const flag = flagOf(json, options.get(option));
      if (flag !== undefined) added.set(property, flag);
    }
    return added;
  };
}

function optionsOf(json: JsonBytes, fields: EventFields): EventFields {
  const options = fields.get("options");
  if (options === undefined || json.kindAt(options.start) !== "object") return new Map();
  return readFields(json, options.start, OPTION_NAMES).fields;
}

const FLAG_BYTES_MAX = 100;

function flagOf(json: JsonBytes, span: Span | undefined): string | undefined {
  if (span === undefined || span.end - span.start > FLAG_BYTES_MAX) return undefined;
  const isString = json.kindAt(span.start) === "string";
  const text = isString ? JSON.stringify(json.string(span).trim().toLowerCase()) : json.text(span);
  return BOOLEANS.get(text);
}
