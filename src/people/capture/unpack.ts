import { invalid, PurserError } from "../../errors.ts";
import { BODY_BYTES_MAX } from "../../http/json-body.ts";
import { utf8 } from "../../lib/encoding.ts";

/** The headers that may say how a body is packed. Some clients do not send them. */
export interface Packing {
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
}

const FORM = /^application\/x-www-form-urlencoded(;|$)/i;
const BASE64 = /^[A-Za-z0-9+/]+$/;
const ENCODINGS = new Set([undefined, "", "identity", "gzip", "x-gzip"]);

/** The unpacked bytes: all bytes, or the first bytes. */
export interface Unpacked {
  readonly bytes: Uint8Array;
  readonly isWhole: boolean;
}

/**
 * Returns the JSON text of a body from PostHog's clients, as bytes. The body may be plain, gzip, or base64, alone or in the form field
 * `data`. Its bytes decide, because the headers of clients are unreliable. Other bytes are returned as they are, because their key is
 * judged before their shape. Unpacks at most about `bytesMax` bytes. Throws `invalid_request` and `payload_too_large`.
 */
export async function unpack(
  body: Uint8Array,
  packing: Packing,
  bytesMax = Number.POSITIVE_INFINITY,
): Promise<Unpacked> {
  if (!ENCODINGS.has(packing.contentEncoding?.trim().toLowerCase())) {
    throw invalid("content-encoding", "must be `gzip`, or left out");
  }
  const plain = await unzipIfPacked({ bytes: body, isWhole: true }, bytesMax);
  // The unpacked text is base64 or a form, which is not compressed a second time.
  if (looksLikeJson(plain.bytes) || plain.bytes.length > BODY_BYTES_MAX) return plain;
  const text = new TextDecoder().decode(plain.bytes);
  const inner = FORM.test(packing.contentType ?? "")
    ? dataField(text, 2 * bytesMax)
    : { text: text.slice(0, 2 * bytesMax), isWhole: text.length <= 2 * bytesMax };
  const isWhole = plain.isWhole && inner.isWhole;
  if (/^\s*[{[]/.test(inner.text)) return { bytes: utf8(inner.text), isWhole };
  const packed = decodeBase64(inner.text, isWhole);
  if (packed === null || !(isGzip(packed) || looksLikeJson(packed))) return plain;
  return unzipIfPacked({ bytes: packed, isWhole }, bytesMax);
}

async function unzipIfPacked(packed: Unpacked, bytesMax: number): Promise<Unpacked> {
  if (!isGzip(packed.bytes)) return packed;
  const { bytes, isWhole } = await unzip(packed.bytes, bytesMax);
  return { bytes, isWhole: packed.isWhole && isWhole };
}

/** Returns whether the text begins like JSON, after white space or a byte order mark. */
function looksLikeJson(bytes: Uint8Array): boolean {
  const start = bytes[0] === 0xef ? 3 : 0;
  const first = bytes.subarray(start).find((byte) => byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09);
  return first === 0x5b || first === 0x7b;
}

/** Returns the form's field `data`, or its beginning. */
function dataField(text: string, charactersMax: number): { readonly text: string; readonly isWhole: boolean } {
  const start = text.startsWith("data=") ? 0 : text.indexOf("&data=") + 1;
  if (!text.startsWith("data=", start)) return { text: "", isWhole: true };
  const ampersand = text.indexOf("&", start);
  const end = ampersand === -1 ? text.length : ampersand;
  const isWhole = end - start <= charactersMax;
  const escaped = text.slice(start + 5, isWhole ? end : start + charactersMax);
  try {
    // The last escapes may be truncated.
    const field = isWhole ? escaped : escaped.replace(/(%[0-9a-f]{2})*%?[0-9a-f]?$/i, "");
    return { text: decodeURIComponent(field.replaceAll("+", " ")), isWhole };
  } catch {
    throw invalid("body", "The body has an escape that is not valid UTF-8.");
  }
}

/** Decodes base64. Null when it is none. Forms turn `+` into a space, and some clients omit the padding. */
function decodeBase64(text: string, isWhole: boolean): Uint8Array | null {
  const packed = text.trim().replaceAll(" ", "+");
  let end = isWhole ? packed.length : packed.length - (packed.length % 4);
  while (packed.charAt(end - 1) === "=") end--;
  const digits = packed.slice(0, end);
  if (digits.length % 4 === 1 || !BASE64.test(digits)) return null;
  const binary = atob(digits);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

/** The most bytes of a decompressed body. As sent, it may have at most 1 MiB, as every body (W4). */
const UNPACKED_BYTES_MAX = 10 * 1024 * 1024;

/** The most bytes that one byte of gzip can contain. */
const UNPACKED_A_BYTE = 1_032;
/**
 * The runtime unpacks all written bytes, even if nobody reads the output. So only this many bytes are written at a time, and their
 * output is read immediately.
 */
const PIECE_BYTES = 256;
const READ_BYTES = UNPACKED_A_BYTE * PIECE_BYTES;

const isGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

/**
 * Unpacks gzip, up to `bytesMax` bytes. Throws `payload_too_large` as soon as they exceed 10 MiB, and `invalid_request`.
 */
export async function unzip(bytes: Uint8Array, bytesMax = Number.POSITIVE_INFINITY): Promise<Unpacked> {
  const { readable, writable } = new DecompressionStream("gzip");
  const writer = writable.getWriter();
  const reader = readable.getReader({ mode: "byob" });
  let isOver = false;
  const write = async () => {
    for (let at = 0; at < bytes.length && !isOver; at += PIECE_BYTES) {
      await writer.write(bytes.subarray(at, at + PIECE_BYTES));
    }
    if (!isOver) await writer.close();
  };
  // This error is ignored, because for a malformed body the reader throws too.
  const written = write().catch(() => {});
  try {
    return await readAll(reader, bytes, bytesMax);
  } finally {
    isOver = true;
    await written;
  }
}

/** Returns the unpacked length that the last four bytes declare. It may be wrong, so the caller has further limits. */
const declaredLength = (bytes: Uint8Array): number =>
  bytes.length < 4 ? 0 : new DataView(bytes.buffer, bytes.byteOffset).getUint32(bytes.length - 4, true);

async function readAll(reader: ReadableStreamBYOBReader, packed: Uint8Array, bytesMax: number): Promise<Unpacked> {
  // The buffer has its full length from the beginning. If it grew, the old buffers would stay in memory until garbage collection.
  const lengthMax = Math.min(UNPACKED_BYTES_MAX, UNPACKED_A_BYTE * packed.length, declaredLength(packed), bytesMax);
  let whole = new Uint8Array(lengthMax);
  let length = 0;
  let buffer = new ArrayBuffer(READ_BYTES);
  for (;;) {
    const { done, value } = await reader.read(new Uint8Array(buffer)).catch(() => {
      throw invalid("body", "The body is not valid gzip.");
    });
    if (done) return { bytes: whole.subarray(0, length), isWhole: true };
    if (length + value.length > UNPACKED_BYTES_MAX) {
      await reader.cancel();
      throw new PurserError("payload_too_large", `The body unpacks to more than ${UNPACKED_BYTES_MAX} bytes.`);
    }
    if (length + value.length > whole.length) {
      const wider = new Uint8Array(Math.min(UNPACKED_BYTES_MAX, 2 * (length + value.length)));
      wider.set(whole);
      whole = wider;
    }
    whole.set(value, length);
    length += value.length;
    if (length > bytesMax) {
      await reader.cancel();
      return { bytes: whole.subarray(0, bytesMax), isWhole: false };
    }
    // Reading detaches the buffer, and returns it in the result.
    buffer = value.buffer as ArrayBuffer;
  }
}
