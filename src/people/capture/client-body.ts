import type { Context } from "hono";
import { invalid } from "../../errors.ts";
import { readBytes, unknownBytesMax } from "../../http/body.ts";
import type { AppEnv } from "../../http/factory.ts";
import { findKey, type ScannedBody, scanBody } from "./scan-body.ts";
import { unpack } from "./unpack.ts";
import type { Unpacked } from "./unzip.ts";

/**
 * The body of a request of PostHog's clients. One that is large, as received or unpacked, is unpacked and parsed when its key is
 * known, but for what it takes to find the key (L2).
 */
export class ClientBody {
  readonly #c: Context<AppEnv>;
  readonly #keyOf: (body: ScannedBody) => string | null;
  #ahead: Unpacked | null = null;
  #isLarge = false;
  #scanned: ScannedBody | null = null;
  /** The key that was found before the rest was read. */
  #found: string | null = null;

  /** `keyOf` answers the key of a body. */
  constructor(c: Context<AppEnv>, keyOf: (body: ScannedBody) => string | null) {
    this.#c = c;
    this.#keyOf = keyOf;
  }

  /** The key in the body. Null when none was sent. Throws what reading the body throws. */
  async key(): Promise<string | null> {
    const ahead = await this.#unpackAhead();
    this.#found = this.#isLarge ? findKey(ahead.bytes) : null;
    return this.#found ?? this.#keyOf(await this.#scanAll(ahead));
  }

  /** The body, once a key is served. Throws `invalid_key`, and `invalid_request` also where it has another key further on. */
  async scan(): Promise<ScannedBody> {
    const ahead = this.#ahead ?? (await this.#unpackAhead());
    if (this.#isLarge) await this.#c.get("checkKey")?.();
    const body = await this.#scanAll(ahead);
    if (this.#found !== null && this.#keyOf(body) !== this.#found) throw invalid("body", "must carry one key");
    return body;
  }

  /** The body as far as it is unpacked before its key is known. */
  async #unpackAhead(): Promise<Unpacked> {
    const packed = await readBytes(this.#c);
    this.#ahead = await this.#unpack(packed, unknownBytesMax);
    const { bytes, isWhole } = this.#ahead;
    this.#isLarge = !isWhole || packed.length > unknownBytesMax || bytes.length > unknownBytesMax;
    return this.#ahead;
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
