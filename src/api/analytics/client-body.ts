import type { Context } from "hono";
import { findKey } from "../../db/key-form.ts";
import { isRejection } from "../../errors.ts";
import { readBytes } from "../../http/body.ts";
import type { AppEnv } from "../../http/factory.ts";
import { UNKNOWN_KEY_BYTES_MAX } from "../../http/json-body.ts";
import { textOfUtf8 } from "../../lib/encoding.ts";
import { type ClientEvents, keyBesideEvents, notUtf8, parseEvents } from "../../people/capture/client-events.ts";
import { type Unpacked, unpack } from "../../people/capture/unpack.ts";

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
    const key = findKey(decodeAscii(beginning.bytes.subarray(0, UNKNOWN_KEY_BYTES_MAX)));
    if (key !== null) return key;
    return this.#isLarge ? findKey(decodeAscii((await this.#wholeOf(beginning)).bytes)) : this.#malformedKey(beginning);
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
      if (isRejection(error)) return null;
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
const decodeAscii = (bytes: Uint8Array): string => new TextDecoder("latin1").decode(bytes);
