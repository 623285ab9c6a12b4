import type { Context } from "hono";
import { findKey, readKey } from "../../db/key-form.ts";
import { isRejection } from "../../errors.ts";
import { readBytes } from "../../http/body.ts";
import type { AppEnv } from "../../http/factory.ts";
import { UNKNOWN_KEY_BYTES_MAX } from "../../http/json-body.ts";
import { textOfUtf8 } from "../../lib/encoding.ts";
import {
  type ClientEvents,
  keyBesideEvents,
  keysNamedBy,
  notUtf8,
  parseEvents,
} from "../../people/capture/client-events.ts";
import { type Unpacked, unpack } from "../../people/capture/unpack.ts";

/**
 * The body of a request of PostHog's clients. Until the key is checked, only as much of a large body is unpacked and parsed as is
 * needed to find the key (L2).
 */
export class ClientBody {
  readonly #c: Context<AppEnv>;
  #beginning: Unpacked | null = null;
  #isLarge = false;
  /** The events of a small body, once its key was looked for. */
  #events: ClientEvents | null = null;

  constructor(c: Context<AppEnv>) {
    this.#c = c;
  }

  /**
   * Returns the key that a small body names. Of other bodies the first key in the beginning, otherwise in the rest, otherwise what was
   * sent instead of a key. Null when none was sent.
   */
  async key(): Promise<string | null> {
    const beginning = await this.#unpackBeginning();
    if (!this.#isLarge) this.#events ??= eventsOrNull(beginning);
    const events = this.#events;
    const named = events === null ? undefined : keysNamedBy(events).find((key) => readKey(key) !== null);
    const key = named ?? findKey(decodeAscii(beginning.bytes.subarray(0, UNKNOWN_KEY_BYTES_MAX)));
    if (key !== null) return key;
    if (this.#isLarge) return findKey(decodeAscii((await this.#wholeOf(beginning)).bytes));
    if (textOfUtf8(beginning.bytes) === null) throw notUtf8();
    return events === null ? null : keyBesideEvents(events);
  }

  /** Returns the events of the body, after its key was accepted. Throws `invalid_key`, and the errors of a malformed body. */
  async parse(): Promise<ClientEvents> {
    const beginning = this.#beginning ?? (await this.#unpackBeginning());
    if (this.#isLarge) await this.#c.get("checkKey")?.();
    return this.#events ?? parseEvents((await this.#wholeOf(beginning)).bytes);
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

/** Returns the events of a small body. Null when it is malformed, which is judged after the key. */
function eventsOrNull({ bytes }: Unpacked): ClientEvents | null {
  try {
    return parseEvents(bytes);
  } catch (error) {
    if (isRejection(error)) return null;
    throw error;
  }
}

/** Reads bytes as one-byte characters, in which a key looks the same. It does not fail on a character that is cut. */
const decodeAscii = (bytes: Uint8Array): string => new TextDecoder("latin1").decode(bytes);
