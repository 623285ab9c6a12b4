import { invalid, PurserError } from "../../errors.ts";
import { jsonAdvice } from "../../http/json-body.ts";
import { textOfUtf8 } from "../../lib/encoding.ts";
import { isJsonObject, type JsonObject, mayRoundNumbers, measureJson, ownValue, parseJson } from "../../lib/json.ts";
import { keyOf } from "./event-members.ts";

/** The events of a body of PostHog's clients, which are not read yet. */
export interface ClientEvents {
  /** The object around the events, or the only event; null when the body is not an object. */
  readonly envelope: JsonObject | null;
  readonly events: readonly unknown[];
  /** The length of the body's text, and so at least that of its events. */
  readonly characters: number;
}

/** The most values of a body, which are all members of objects and elements of lists, at all levels. */
const VALUES_MAX = 100_000;
/** The most values of a body with a number that a double may not represent, because each value is then parsed with its digits. */
const VALUES_WITH_DIGITS_MAX = 25_000;
/** The most escapes in the strings of a body. JSON inside of JSON needs many, and each is written several times. */
const ESCAPES_MAX = 1_000_000;

/**
 * Parses a body: `{ api_key, batch, sent_at }`, one event, or only a list of events. Throws `invalid_request` when it is not JSON, and
 * `payload_too_large` when it has so many values that it would take too much time and memory.
 */
export function parseEvents(bytes: Uint8Array): ClientEvents {
  const { values, escapes } = measureJson(bytes);
  if (values > VALUES_MAX) throw tooManyParts("members of objects and elements of lists", VALUES_MAX);
  if (escapes > ESCAPES_MAX) throw tooManyParts("escapes in strings", ESCAPES_MAX);
  const text = textOfUtf8(bytes);
  if (text === null) throw notUtf8();
  if (values > VALUES_WITH_DIGITS_MAX && mayRoundNumbers(text)) {
    throw tooManyParts("members and elements beside a number of more than 15 digits", VALUES_WITH_DIGITS_MAX);
  }
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (cause) {
    throw new PurserError("invalid_request", jsonAdvice(text, cause), { param: "body", cause });
  }
  const envelope = isJsonObject(value) ? value : null;
  return { envelope, events: readSentEvents(value), characters: text.length };
}

export const notUtf8 = (): PurserError => invalid("body", "The body is not valid UTF-8.");
const tooManyParts = (things: string, most: number): PurserError =>
  new PurserError("payload_too_large", `A request may have at most ${most} ${things}. Send fewer events at a time.`);

function readSentEvents(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (!isJsonObject(value)) return [];
  if (!Object.hasOwn(value, "batch")) return [value];
  const batch = ownValue(value, "batch");
  return Array.isArray(batch) ? batch : [];
}

/** Returns the key beside the events. Null when none was sent. */
export function keyBesideEvents({ envelope }: ClientEvents): string | null {
  return envelope === null ? null : keyOf(envelope);
}

/** Returns the texts that were sent as keys: beside the events, then in each event. */
export const keysNamedBy = (body: ClientEvents): string[] =>
  [body.envelope, ...body.events].flatMap((object) => (isJsonObject(object) ? (keyOf(object) ?? []) : []));

/** The most events of a batch. For more events the response is 413. Clients then send half as many. */
const BATCH_EVENTS_MAX = 10_000;

/** Throws `invalid_request` when there are no events, and `payload_too_large` when there are too many. */
export function assertEvents({ envelope, events }: ClientEvents): void {
  const batch = envelope === null ? null : (ownValue(envelope, "batch") ?? null);
  if (batch !== null && !Array.isArray(batch)) throw invalid("batch", "must be a list of events");
  if (events.length === 0) throw invalid("batch", "must have at least one event");
  if (events.length > BATCH_EVENTS_MAX) {
    throw new PurserError("payload_too_large", `A request may have at most ${BATCH_EVENTS_MAX} events.`);
  }
}
