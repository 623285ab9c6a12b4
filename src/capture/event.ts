import { isJsonObject, isNestedDeeperThan, type JsonObject, numberText, numberValue, own } from "../lib/json.ts";
import { parseUuid } from "../lib/uuid.ts";
import { nameOrId, propertiesBytesMax } from "../people/schemas.ts";
import { eventTimeMs, parseClientTime } from "./event-time.ts";

/** An analytics event of either protocol version: what Purser stores, and what it says about a person. */
export interface CapturedEvent {
  readonly uuid: string;
  readonly event: string;
  readonly distinctId: string;
  readonly timestampMs: number;
  /** JSON object, as it was sent. It includes `$set`, `$set_once` and `$unset`, also if they were outside of it. */
  readonly properties: string;
  /** Sent with `$process_person_profile: false`: it creates no person and links nothing. */
  readonly isPersonless: boolean;
  readonly isIdentify: boolean;
  /** The other id of `$identify` or `$create_alias`. */
  readonly link: { readonly otherId: string; readonly via: "identify" | "alias" } | null;
  readonly set: JsonObject;
  readonly setOnce: JsonObject;
  readonly unset: readonly string[];
}

/** One event of a request: read, or refused. The message names what is wrong and never repeats its value. */
export type ReadEvent =
  | { readonly captured: CapturedEvent; readonly warning: string | null }
  | { readonly refused: { readonly param: string; readonly message: string } };

/** When a request was sent by the client's clock and received by ours; and the source of new UUIDs. */
export interface Arrival {
  readonly nowMs: number;
  readonly sentAtMs: number | null;
  readonly newUuid: () => string;
}

/** SQLite reads JSON of at most 1,000 levels, and an export nests stored events deeper. */
const LEVELS_MAX = 900;

function refuse(param: string, message: string): ReadEvent {
  return { refused: { param, message } };
}

/** A name or id as text. PostHog's clients also send numbers, which are read by their digits. Null for other types. */
function asText(value: unknown): string | null {
  return typeof value === "string" ? value : numberText(value);
}

const flawOf = (text: string | null): string | null => {
  if (text === null) return "must be a string or a number";
  return nameOrId.safeParse(text).error?.issues[0]?.message ?? null;
};

/** Reads one event of PostHog's v0 format. Does not throw. */
export function readEvent(raw: unknown, arrival: Arrival): ReadEvent {
  if (!isJsonObject(raw)) return refuse("", "must be an object");
  const given = own(raw, "properties") ?? {};
  if (!isJsonObject(given)) return refuse("properties", "must be an object");
  const event = own(raw, "event");
  const eventFlaw = typeof event === "string" ? flawOf(event) : "must be a string";
  if (typeof event !== "string" || eventFlaw !== null) return refuse("event", eventFlaw ?? "must be a string");
  const distinctId = asText(own(raw, "distinct_id") ?? own(raw, "$distinct_id") ?? own(given, "distinct_id"));
  const idFlaw = flawOf(distinctId);
  if (distinctId === null || idFlaw !== null) return refuse("distinct_id", idFlaw ?? "must be a string or a number");
  const sentUuid = own(raw, "uuid") ?? "";
  const uuid = sentUuid === "" ? arrival.newUuid() : typeof sentUuid === "string" ? parseUuid(sentUuid) : null;
  if (uuid === null) return refuse("uuid", "must be a UUID");

  const properties = withPersonProperties(raw, given);
  if (isNestedDeeperThan(properties, LEVELS_MAX))
    return refuse("properties", `is nested deeper than ${LEVELS_MAX} levels`);
  const text = JSON.stringify(properties);
  if (text.length > propertiesBytesMax || new TextEncoder().encode(text).length > propertiesBytesMax) {
    return refuse("properties", `is larger than ${propertiesBytesMax} bytes`);
  }
  const isPersonless = own(properties, "$process_person_profile") === false;
  const { link, warning } = isPersonless ? { link: null, warning: null } : readLink(event, properties);
  const captured = {
    uuid,
    event,
    distinctId,
    timestampMs: readTime(raw, properties, arrival),
    properties: text,
    isPersonless,
    isIdentify: event === "$identify",
    link,
    set: asObject(own(properties, "$set")),
    setOnce: asObject(own(properties, "$set_once")),
    unset: readUnset(own(properties, "$unset")),
  };
  return { captured, warning };
}

const asObject = (value: unknown): JsonObject => (isJsonObject(value) ? value : {});

/** `$unset` is a list of names. Some clients send an object with the names as keys. */
function readUnset(value: unknown): string[] {
  if (Array.isArray(value)) return value.filter((entry) => typeof entry === "string");
  return Object.keys(asObject(value));
}

/**
 * The properties with `$set`, `$set_once` and `$unset`, which may also be outside of them in the event. So nothing of the event
 * is lost. Spread copies a key named `__proto__` as an ordinary key.
 */
function withPersonProperties(raw: JsonObject, properties: JsonObject): JsonObject {
  let whole = properties;
  for (const key of ["$set", "$set_once", "$unset"]) {
    const beside = own(raw, key);
    if (beside === undefined || beside === null) continue;
    const within = own(properties, key);
    const value = isJsonObject(beside) && isJsonObject(within) ? { ...within, ...beside } : (within ?? beside);
    whole = { ...whole, [key]: value };
  }
  return whole;
}

/** The id that the event links to its own. If it is not a valid id, nothing is linked, and the event is still stored. */
function readLink(event: string, properties: JsonObject): Pick<CapturedEvent, "link"> & { warning: string | null } {
  const via = event === "$identify" ? "identify" : event === "$create_alias" ? "alias" : null;
  const key = via === "identify" ? "$anon_distinct_id" : "alias";
  const other = via === null ? undefined : own(properties, key);
  if (via === null || other === undefined || other === null) return { link: null, warning: null };
  const otherId = asText(other);
  const flaw = flawOf(otherId);
  if (otherId === null || flaw !== null)
    return { link: null, warning: `properties.${key} ${flaw}: nothing was linked` };
  return { link: { otherId, via }, warning: null };
}

function readTime(raw: JsonObject, properties: JsonObject, arrival: Arrival): number {
  const timestamp = own(raw, "timestamp");
  const isSkewIgnored = own(properties, "$ignore_sent_at") === true;
  return eventTimeMs(
    {
      timestampMs: typeof timestamp === "string" ? parseClientTime(timestamp) : numberValue(timestamp),
      offsetMs: numberValue(own(raw, "offset")),
      sentAtMs: isSkewIgnored ? null : arrival.sentAtMs,
    },
    arrival.nowMs,
  );
}
