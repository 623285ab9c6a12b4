import type { Context } from "hono";
import { readKey } from "../../auth/key.ts";
import { invalid, PurserError } from "../../errors.ts";
import { readBytes, UNKNOWN_KEY_BYTES_MAX } from "../../http/body.ts";
import type { AppEnv } from "../../http/factory.ts";
import { JsonBytes, JsonSyntaxError, type Names, type Span, STOPPED } from "../../lib/json-bytes.ts";
import {
  type EventFields,
  firstPresent,
  keyAt,
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
  readonly #keyOf: (body: ScannedBody) => string | null;
  #beginning: Unpacked | null = null;
  #isLarge = false;
  #scanned: ScannedBody | null = null;
  /** The key that was found before the whole body was read. */
  #earlyKey: string | null = null;

  /** `keyOf` returns the key of a body. */
  constructor(c: Context<AppEnv>, keyOf: (body: ScannedBody) => string | null) {
    this.#c = c;
    this.#keyOf = keyOf;
  }

  /** Returns the key in the body. Null when none was sent. Throws the errors of reading the body. */
  async key(): Promise<string | null> {
    const beginning = await this.#unpackBeginning();
    this.#earlyKey = this.#isLarge ? findKey(beginning.bytes) : null;
    return this.#earlyKey ?? this.#keyOf(await this.#scanAll(beginning));
  }

  /**
   * Returns the whole body, after its key was accepted. Throws `invalid_key`, and `invalid_request` when it contains another
   * key.
   */
  async scan(): Promise<ScannedBody> {
    const beginning = this.#beginning ?? (await this.#unpackBeginning());
    if (this.#isLarge) await this.#c.get("checkKey")?.();
    const body = await this.#scanAll(beginning);
    if (this.#earlyKey !== null && this.#keyOf(body) !== this.#earlyKey) throw invalid("body", "must contain one key");
    return body;
  }

  /** Unpacks as much of the body as is allowed before its key is checked. */
  async #unpackBeginning(): Promise<Unpacked> {
    const packed = await readBytes(this.#c);
    this.#beginning = await this.#unpack(packed, UNKNOWN_KEY_BYTES_MAX);
    const { bytes, isWhole } = this.#beginning;
    this.#isLarge = !isWhole || packed.length > UNKNOWN_KEY_BYTES_MAX || bytes.length > UNKNOWN_KEY_BYTES_MAX;
    return this.#beginning;
  }

  async #scanAll({ bytes, isWhole }: Unpacked): Promise<ScannedBody> {
    if (this.#scanned !== null) return this.#scanned;
    this.#scanned = scanBody(isWhole ? bytes : (await this.#unpack(this.#c.get("bodyBytes"))).bytes);
    return this.#scanned;
  }

  #unpack(packed: Uint8Array, bytesMax?: number): Promise<Unpacked> {
    const { req } = this.#c;
    const packing = { contentType: req.header("content-type"), contentEncoding: req.header("content-encoding") };
    return unpack(packed, packing, bytesMax);
  }
}

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
const BODY_KEY_NAMES = namesWithKey();

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

/**
 * Returns the key of a request, which is beside the events or in each of them. Null when none was sent. Throws `invalid_request` if
 * events have different keys, because a request is for one environment.
 */
export function keyOfRequest(body: ScannedBody): string | null {
  const outerKey = keyBesideEvents(body);
  if (outerKey !== null) return outerKey;
  const { json, events } = body;
  const keys = new Set(
    events.map(({ start }) =>
      json.kindAt(start) === "object"
        ? keyOf(json, readEventFields(json, start, BODY_KEY_NAMES, keyInProperties))
        : null,
    ),
  );
  if (keys.size > 1) throw invalid("batch", "must contain one key");
  return [...keys][0] ?? null;
}

/**
 * Returns the key in the top-level members of a body, or of the first event of a list. It stops at the key (L2), so `bytes` may be
 * only the beginning of a body. Null when they have no key.
 */
export function findKey(bytes: Uint8Array): string | null {
  const json = new JsonBytes(bytes);
  let foundKey: string | null = null;
  const searchFor = (names: Names) => (nameSpan: Span, valueStart: number) => {
    const name = json.find(names, nameSpan);
    if (name === "properties" && json.kindAt(valueStart) === "object") {
      return json.members(valueStart, searchFor(keyInProperties));
    }
    const end = json.skip(valueStart);
    const text = name === undefined ? null : keyAt(json, { start: valueStart, end });
    // A property `token` may be an ordinary property of the caller. Then the key may come after it.
    if (text === null || (names === keyInProperties && readKey(text) === null)) return end;
    foundKey = text;
    return STOPPED;
  };
  try {
    const start = json.skipSpace(0);
    const first = json.kindAt(start) === "list" ? json.skipSpace(start + 1) : start;
    if (json.kindAt(first) === "object") json.members(first, searchFor(BODY_KEY_NAMES));
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
  }
  return foundKey;
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
