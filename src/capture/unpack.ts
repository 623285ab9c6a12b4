import { invalid, PurserError } from "../errors.ts";
import { parseJson } from "../lib/json.ts";

/** The most bytes of a decompressed body. Before that, the limit is 1 MiB, as for every body (W4). */
const unpackedBytesMax = 10 * 1024 * 1024;

/** The headers that may say how a body is packed. Not every client sends them. */
export interface Packing {
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
}

const FORM = /^application\/x-www-form-urlencoded(;|$)/i;
const BASE64 = /^[A-Za-z0-9+/]+$/;
const ENCODINGS = new Set([undefined, "", "identity", "gzip", "x-gzip"]);

/**
 * The JSON value of a body from PostHog's clients: plain; gzip; base64, alone or in the form field `data`. The bytes decide,
 * because the headers of clients are not reliable. Throws `invalid_request` and `payload_too_large`.
 */
export async function unpack(body: Uint8Array, packing: Packing): Promise<unknown> {
  if (!ENCODINGS.has(packing.contentEncoding?.trim().toLowerCase())) {
    throw invalid("content-encoding", "must be gzip or absent");
  }
  let text = decodeText(await unzip(body));
  if (FORM.test(packing.contentType ?? "") && !looksLikeJson(text)) text = formData(text);
  if (!looksLikeJson(text)) text = decodeText(await unzip(decodeBase64(text)));
  try {
    return parseJson(text);
  } catch {
    throw invalid("body", "The body is not valid JSON.");
  }
}

const looksLikeJson = (text: string): boolean => /^\s*[{[]/.test(text);

/** Refuses bytes that are not UTF-8, because a lenient reader could turn two ids into one. */
function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch {
    throw invalid("body", "The body is not valid UTF-8.");
  }
}

/** The form's field `data`. Escapes that are not UTF-8 are refused too. */
function formData(text: string): string {
  try {
    decodeURIComponent(text);
  } catch {
    throw invalid("body", "The body has an escape that is not valid UTF-8.");
  }
  return new URLSearchParams(text).get("data") ?? "";
}

/** A form turns `+` into a space, and some clients leave out the padding. */
function decodeBase64(text: string): Uint8Array {
  const packed = text.trim().replaceAll(" ", "+").replace(/=+$/, "");
  if (packed.length % 4 === 1 || !BASE64.test(packed)) throw invalid("body", "The body is not valid JSON.");
  return Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
}

async function unzip(bytes: Uint8Array): Promise<Uint8Array> {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  const parts: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const part = await reader.read().catch(() => {
      throw invalid("body", "The body is not valid gzip.");
    });
    if (part.done) break;
    length += part.value.length;
    if (length > unpackedBytesMax) {
      await reader.cancel();
      throw new PurserError("payload_too_large", `The body unpacks to more than ${unpackedBytesMax} bytes.`);
    }
    parts.push(part.value);
  }
  const whole = new Uint8Array(length);
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}
