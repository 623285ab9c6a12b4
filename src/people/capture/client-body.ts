import type { Context } from "hono";
import { findKey } from "../../db/key-form.ts";
import { invalid, isRefusal, PurserError } from "../../errors.ts";
import { readBytes, UNKNOWN_KEY_BYTES_MAX } from "../../http/body.ts";
import type { AppEnv } from "../../http/factory.ts";
import { JsonBytes, JsonSyntaxError, type Span } from "../../lib/json-bytes.ts";
import {
  type EventFields,
  firstPresent,
  keyInProperties,
  keyOf,
  namesWithKey,
  type ReadEventFields,
  readEventFields,
} from "./fields.ts";
import { type Unpacked, unpack } from "./unpack.ts";

/**
 * The body of a request of PostHog's clients. Until the key is checked, only as much of a large body is unpacked and parsed as is
 * needed to find the key (L2).
 */
export class ClientBody {
  readonly #c: Context<AppEnv>;
  #beginning: Unpacked | null = null;
  #isLarge = false;
  #scanned: ScannedBody | null = null;

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

  /** Returns the whole body, after its key was accepted. Throws `invalid_key`, and the errors of a malformed body. */
  async scan(): Promise<ScannedBody> {
    const beginning = this.#beginning ?? (await this.#unpackBeginning());
    if (this.#isLarge) await this.#c.get("checkKey")?.();
    return this.#scanAll(beginning);
  }

  /** Returns a text that was sent as a key and has no key's form, for the advice. Null when the body is not JSON. */
  async #malformedKey(beginning: Unpacked): Promise<string | null> {
    try {
      return keyBesideEvents(await this.#scanAll(beginning));
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

  async #scanAll(beginning: Unpacked): Promise<ScannedBody> {
    if (this.#scanned !== null) return this.#scanned;
    this.#scanned = scanBody((await this.#wholeOf(beginning)).bytes);
    return this.#scanned;
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

/** A body of PostHog's clients, with the positions of its events, which are not parsed yet. */
export interface ScannedBody {
  readonly json: JsonBytes;
  /** The members beside the events; null when the body is not an object. */
  readonly envelope: ReadEventFields | null;
  /** At most the first `BATCH_EVENTS_MAX` events. `eventCount` counts all. */
  readonly events: readonly Span[];
  readonly eventCount: number;
}

/** The most events of a batch. For more events the response is 413. Clients then send half as many. */
const BATCH_EVENTS_MAX = 10_000;

const ENVELOPE_NAMES = namesWithKey("batch", "sent_at");

/**
 * Finds the events of a body: `{ api_key, batch, sent_at }`, one event, or only a list of events. Throws `invalid_request`
 * when it is not JSON.
 */
function scanBody(bytes: Uint8Array): ScannedBody {
  const json = new JsonBytes(bytes);
  const events = new EventSpans(json);
  const envelopes: ReadEventFields[] = [];
  try {
    json.whole((start) => {
      const kind = json.kindAt(start);
      if (kind === "list") return events.readList(start);
      if (kind !== "object") return json.skip(start);
      const read = readEventFields(json, start, ENVELOPE_NAMES, keyInProperties, (name, valueStart) => {
        if (name !== "batch") return json.skip(valueStart);
        return json.kindAt(valueStart) === "list" ? events.readList(valueStart) : events.skip(valueStart);
      });
      if (!read.fields.has("batch")) events.add({ start, end: read.end });
      envelopes.push(read);
      return read.end;
    });
  } catch (error) {
    if (error instanceof JsonSyntaxError) {
      const place = events.isListOpen ? `: the error is in event ${events.count} of the list (the first is 0)` : "";
      throw invalid("body", `The body is not valid JSON${place}.`);
    }
    throw error;
  }
  return { json, envelope: envelopes[0] ?? null, events: events.spans, eventCount: events.count };
}

class EventSpans {
  readonly #json: JsonBytes;
  spans: Span[] = [];
  count = 0;
  /** Whether a list was begun and has not ended. */
  isListOpen = false;

  constructor(json: JsonBytes) {
    this.#json = json;
  }

  /** Reads a batch. If a body has two batches, the last one counts. */
  readList(start: number): number {
    this.spans = [];
    this.count = 0;
    this.isListOpen = true;
    const listEnd = this.#json.elements(start, (at) => {
      const end = this.#json.skip(at);
      this.add({ start: at, end });
      return end;
    });
    this.isListOpen = false;
    return listEnd;
  }

  skip(start: number): number {
    this.spans = [];
    this.count = 0;
    return this.#json.skip(start);
  }

  add(span: Span): void {
    this.count++;
    if (this.spans.length < BATCH_EVENTS_MAX) this.spans.push(span);
  }
}

/** Returns the key beside the events. Null when none was sent. */
export function keyBesideEvents({ json, envelope }: ScannedBody): string | null {
  return envelope === null ? null : keyOf(json, envelope);
}

/** Throws `invalid_request` when there are no events, and `payload_too_large` when there are too many. */
export function assertEvents({ json, envelope, eventCount }: ScannedBody): void {
  if (envelope !== null && !isListOrAbsent(json, envelope.fields)) throw invalid("batch", "must be a list of events");
  if (eventCount === 0) throw invalid("batch", "must have at least one event");
  if (eventCount > BATCH_EVENTS_MAX) {
    throw new PurserError("payload_too_large", `A request may have at most ${BATCH_EVENTS_MAX} events.`);
  }
}

function isListOrAbsent(json: JsonBytes, fields: EventFields): boolean {
  const batch = firstPresent(json, fields, "batch");
  return batch === undefined || json.kindAt(batch.start) === "list";
}
