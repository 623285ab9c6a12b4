import type { Context } from "hono";
import { findKey } from "../../db/key-form.ts";
import { invalid, isRefusal, PurserError } from "../../errors.ts";
import { jsonAdvice, readBytes, UNKNOWN_KEY_BYTES_MAX } from "../../http/body.ts";
import type { AppEnv } from "../../http/factory.ts";
import { textOfUtf8 } from "../../lib/encoding.ts";
import { isJsonObject, type JsonObject, jsonSizeOf, mayRoundNumbers, ownValue, parseJson } from "../../lib/json.ts";
import { keyOf } from "./fields.ts";
import { type Unpacked, unpack } from "./unpack.ts";

/**
 * The body of a request of PostHog's clients. Until the key is checked, only as much of a large body is unpacked and parsed as is
 * needed to find the key (L2).
 */
export class ClientBody {
  readonly #c: Context<AppEnv>;
  #beginning: Unpacked | null = null;
  #isLarge = false;

  constructor(c: Context<AppEnv>) {
    this.#c = c;
  }

  /**
   * Returns the first key in the beginning of the body, otherwise in the rest, otherwise what was sent instead of a key. Null when
   * none was sent.
   */
  async key(): Promise<string | null> {
    const beginning = await this.#unpackBeginning();
    const key = findKey(asciiOf(beginning.bytes.subarray(0, UNKNOWN_KEY_BYTES_MAX)));
    if (key !== null) return key;
    return this.#isLarge ? findKey(asciiOf((await this.#wholeOf(beginning)).bytes)) : this.#malformedKey(beginning);
  }

  /** Returns the events of the body, after its key was accepted. Throws `invalid_key`, and the errors of a malformed body. */
  async parse(): Promise<ClientEvents> {
    const beginning = this.#beginning ?? (await this.#unpackBeginning());
    if (this.#isLarge) await this.#c.get("checkKey")?.();
    return parseEvents((await this.#wholeOf(beginning)).bytes);
  }

  /**
   * Returns a text that was sent as a key and has no key's form, for the advice. Null when the body is not JSON. Throws
   * `invalid_request` when it is not UTF-8.
   */
  async #malformedKey({ bytes }: Unpacked): Promise<string | null> {
    if (textOfUtf8(bytes) === null) throw notUtf8();
    try {
      return keyBesideEvents(parseEvents(bytes));
    } catch (error) {
      if (isRefusal(error)) return null;
      throw error;
    }
  }

  /** Unpacks as much of the body as is allowed before its key is checked. */
  async #unpackBeginning(): Promise<Unpacked> {
    const packed = await readBytes(this.#c);
    this.#beginning = await this.#unpack(packed, UNKNOWN_KEY_BYTES_MAX);
    const { bytes, isWhole } = this.#beginning;
    this.#isLarge = !isWhole || packed.length > UNKNOWN_KEY_BYTES_MAX || bytes.length > UNKNOWN_KEY_BYTES_MAX;
    return this.#beginning;
  }

  async #wholeOf(beginning: Unpacked): Promise<Unpacked> {
    if (beginning.isWhole) return beginning;
    this.#beginning = await this.#unpack(this.#c.get("bodyBytes"));
    return this.#beginning;
  }

  #unpack(packed: Uint8Array, bytesMax?: number): Promise<Unpacked> {
    const { req } = this.#c;
    const packing = { contentType: req.header("content-type"), contentEncoding: req.header("content-encoding") };
    return unpack(packed, packing, bytesMax);
  }
}

/** Reads bytes as one-byte characters, in which a key looks the same. It does not fail on a character that is cut. */
const asciiOf = (bytes: Uint8Array): string => new TextDecoder("latin1").decode(bytes);

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
function parseEvents(bytes: Uint8Array): ClientEvents {
  const { values, escapes } = jsonSizeOf(bytes);
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
  return { envelope, events: eventsOf(value), characters: text.length };
}

const notUtf8 = (): PurserError => invalid("body", "The body is not valid UTF-8.");
const tooManyParts = (things: string, most: number): PurserError =>
  new PurserError("payload_too_large", `A request may have at most ${most} ${things}. Send fewer events at a time.`);

function eventsOf(value: unknown): readonly unknown[] {
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
