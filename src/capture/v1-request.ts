import { invalid } from "../errors.ts";
import { isJsonObject, type JsonObject, own } from "../lib/json.ts";
import { parseUuid } from "../lib/uuid.ts";
import { parseClientTime } from "./event-time.ts";
import { assertEventCount } from "./v0-request.ts";

/** The headers that a v1 client sends instead of fields of each event. */
export interface V1Headers {
  /** `name/version`. v1 clients do not send `$lib` and `$lib_version`. */
  readonly sdkInfo: string | undefined;
  /** The client's clock when it sent the request. */
  readonly requestTimestamp: string | undefined;
}

interface V1Event {
  /** As it was sent. The response uses it as a key. */
  readonly uuid: string;
  /** The event in the v0 format. */
  readonly event: JsonObject;
}

export interface V1Request {
  readonly events: readonly V1Event[];
  readonly sentAtMs: number | null;
}

/** The flags of a v1 event, and the properties that v0 clients send instead. */
const FLAGS = [
  ["cookieless_mode", "$cookieless_mode"],
  ["disable_skew_correction", "$ignore_sent_at"],
  ["process_person_profile", "$process_person_profile"],
] as const;
const BOOLEANS: ReadonlyMap<unknown, boolean> = new Map<unknown, boolean>([
  [true, true],
  ["true", true],
  ["1", true],
  [1, true],
  [false, false],
  ["false", false],
  ["0", false],
  [0, false],
]);

/**
 * The events of a v1 request (`POST /i/v1/analytics/events`) in the v0 format. Fields that a v1 client moves out of
 * `properties` are put back there. Throws `invalid_request`.
 */
export function readV1Request(body: unknown, headers: V1Headers): V1Request {
  if (!isJsonObject(body)) throw invalid("body", "must be an object");
  const batch = own(body, "batch");
  if (!Array.isArray(batch)) throw invalid("batch", "must be a list of events");
  assertEventCount(batch);
  const [library, version] = (headers.sdkInfo ?? "").split("/");
  const events = batch.map((raw: unknown, index) => {
    if (!isJsonObject(raw)) throw invalid(`batch[${index}]`, "must be an object");
    const uuid = own(raw, "uuid");
    if (typeof uuid !== "string") throw invalid(`batch[${index}].uuid`, "must be a string");
    // In v0, an empty uuid asks for a new one. In v1, the response could then not name the event.
    return { uuid, event: { ...raw, uuid: parseUuid(uuid) ?? "invalid", properties: asV0(raw, library, version) } };
  });
  const sentAt = headers.requestTimestamp;
  return { events, sentAtMs: sentAt === undefined ? null : parseClientTime(sentAt) };
}

function asV0(raw: JsonObject, library: string | undefined, version: string | undefined): unknown {
  const properties = own(raw, "properties") ?? {};
  if (!isJsonObject(properties)) return properties;
  const given = own(raw, "options");
  const options = isJsonObject(given) ? given : {};
  const lifted: [string, unknown][] = [
    ["$lib", library === "" ? undefined : library],
    ["$lib_version", version],
    ["$session_id", own(raw, "session_id")],
    ["$window_id", own(raw, "window_id")],
    ["$product_tour_id", own(options, "product_tour_id")],
  ];
  for (const [option, property] of FLAGS) {
    const value = own(options, option);
    lifted.push([property, BOOLEANS.get(typeof value === "string" ? value.trim().toLowerCase() : value)]);
  }
  const present = lifted.filter(([, value]) => value !== undefined && value !== null);
  return { ...properties, ...Object.fromEntries(present) };
}
