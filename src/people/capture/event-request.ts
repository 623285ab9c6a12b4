import { invalid } from "../../errors.ts";
import { isJsonObject, type JsonObject, numberValue, ownValue } from "../../lib/json.ts";
import { assertEvents, type ClientEvents } from "./client-events.ts";
import { firstPresent, objectIn } from "./event-members.ts";
import { numericTime, parseClientTime } from "./event-properties.ts";

/** A request of PostHog's v0 protocol: `/batch/`, `/e/`, `/capture/` and others. */
export interface CaptureRequest {
  readonly body: ClientEvents;
  readonly sentAtMs: number | null;
}

/**
 * Reads a v0 request. `sentAtQuery` is `_` of the query string. Throws `invalid_request`,
 * `payload_too_large`.
 */
export function readCaptureRequest(body: ClientEvents, sentAtQuery: string | undefined): CaptureRequest {
  assertEvents(body);
  const queryTimeMs =
    sentAtQuery !== undefined && /^\d{1,15}$/.test(sentAtQuery) ? numericTime(Number(sentAtQuery)) : null;
  return { body, sentAtMs: readSentAt(body, queryTimeMs) };
}

/** Returns the client's time when it sent the request: `sent_at` of the body, otherwise `fallbackMs`. */
function readSentAt({ envelope }: ClientEvents, fallbackMs: number | null): number | null {
  const sentAt = envelope === null ? undefined : ownValue(envelope, "sent_at");
  return typeof sentAt === "string" ? parseClientTime(sentAt) : (numericTime(numberValue(sentAt)) ?? fallbackMs);
}

/** The headers that a v1 client sends instead of fields of each event. */
export interface V1Headers {
  /** `name/version`. v1 clients do not send `$lib` and `$lib_version`. */
  readonly sdkInfo: string | undefined;
  /** The client's clock when it sent the request. */
  readonly requestTimestamp: string | undefined;
}

/** Returns the properties that a protocol version adds to an event. */
export type AddedProperties = (event: JsonObject) => JsonObject;

/** A request of PostHog's v1 protocol. */
export interface V1Request {
  readonly body: ClientEvents;
  /** The UUID of each event, as it was sent. The response uses them as keys. */
  readonly uuids: readonly string[];
  readonly sentAtMs: number | null;
  readonly added: AddedProperties;
}

const UUID_CHARACTERS_MAX = 200;
/** The flags of a v1 event, and the properties that v0 clients send instead. */
const FLAGS = [
  ["cookieless_mode", "$cookieless_mode"],
  ["disable_skew_correction", "$ignore_sent_at"],
  ["process_person_profile", "$process_person_profile"],
] as const;
const BOOLEANS: ReadonlyMap<unknown, boolean> = new Map<unknown, boolean>([
  ...[true, 1, "true", "1"].map((value) => [value, true] as const),
  ...[false, 0, "false", "0"].map((value) => [value, false] as const),
]);

/** Reads a v1 request (`POST /i/v1/analytics/events`), but not yet its events. Throws `invalid_request`. */
export function readV1Request(body: ClientEvents, headers: V1Headers): V1Request {
  const { envelope, events } = body;
  if (envelope === null) throw invalid("body", "must be an object");
  if (firstPresent(envelope, "batch") === undefined) throw invalid("batch", "must be a list of events");
  assertEvents(body);
  const uuids = events.map((event, index) => {
    if (!isJsonObject(event)) throw invalid(`batch[${index}]`, "must be an object");
    const uuid = ownValue(event, "uuid");
    if (typeof uuid !== "string") throw invalid(`batch[${index}].uuid`, "must be a string");
    if (uuid.length > UUID_CHARACTERS_MAX) throw invalid(`batch[${index}].uuid`, "must be a UUID");
    return uuid;
  });
  const sentAt = headers.requestTimestamp;
  const sentAtMs = sentAt === undefined ? null : parseClientTime(sentAt);
  return { body, uuids, sentAtMs, added: addedBy(headers) };
}

/** Returns the function that adds to `properties` what v0 clients send there and v1 clients elsewhere. */
function addedBy(headers: V1Headers): AddedProperties {
  const [library, version] = (headers.sdkInfo ?? "").split("/");
  const ofHeaders = {
    ...(library === undefined || library === "" ? {} : { $lib: library }),
    ...(version === undefined ? {} : { $lib_version: version }),
  };
  return (event) => {
    const options = objectIn(event, "options");
    const sent: readonly (readonly [string, unknown])[] = [
      ["$session_id", firstPresent(event, "session_id")],
      ["$window_id", firstPresent(event, "window_id")],
      ["$product_tour_id", firstPresent(options, "product_tour_id")],
      ...FLAGS.map(([option, property]) => [property, readFlag(ownValue(options, option))] as const),
    ];
    return { ...ofHeaders, ...Object.fromEntries(sent.filter(([, value]) => value !== undefined)) };
  };
}

const readFlag = (value: unknown): boolean | undefined =>
  BOOLEANS.get(typeof value === "string" ? value.trim().toLowerCase() : value);
