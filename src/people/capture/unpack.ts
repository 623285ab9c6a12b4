import { invalid } from "../../errors.ts";
import { bodyBytesMax } from "../../http/body.ts";
import { isGzip, unzip } from "./unzip.ts";

/** The headers that may say how a body is packed. Not every client sends them. */
export interface Packing {
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
}

const FORM = /^application\/x-www-form-urlencoded(;|$)/i;
const BASE64 = /^[A-Za-z0-9+/]+$/;
const ENCODINGS = new Set([undefined, "", "identity", "gzip", "x-gzip"]);
const UTF8_PIECE_BYTES = 64 * 1024;

const notJson = () => invalid("body", "The body is not valid JSON.");

/**
 * The JSON text of a body from PostHog's clients, as UTF-8: plain; gzip; base64, alone or in the form field `data`. The bytes
 * decide, because the headers of clients are not reliable. Throws `invalid_request` and `payload_too_large`.
 */
export async function unpack(body: Uint8Array, packing: Packing): Promise<Uint8Array> {
  if (!ENCODINGS.has(packing.contentEncoding?.trim().toLowerCase())) {
    throw invalid("content-encoding", "must be gzip or absent");
  }
  const plain = await unzipText(body);
  if (looksLikeJson(plain)) return plain;
  // Base64 and forms are packed no further.
  if (plain.length > bodyBytesMax) throw notJson();
  let text = new TextDecoder().decode(plain);
  if (FORM.test(packing.contentType ?? "")) text = formData(text);
  if (/^\s*[{[]/.test(text)) return new TextEncoder().encode(text);
  return unzipText(decodeBase64(text));
}

/** Refuses bytes that are not UTF-8, because a lenient reader could turn two ids into one. */
async function unzipText(packed: Uint8Array): Promise<Uint8Array> {
  const bytes = isGzip(packed) ? await unzip(packed) : packed;
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  try {
    for (let at = 0; at < bytes.length; at += UTF8_PIECE_BYTES) {
      decoder.decode(bytes.subarray(at, at + UTF8_PIECE_BYTES), { stream: true });
    }
    decoder.decode();
  } catch {
    throw invalid("body", "The body is not valid UTF-8.");
  }
  const hasByteOrderMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return hasByteOrderMark ? bytes.subarray(3) : bytes;
}

function looksLikeJson(bytes: Uint8Array): boolean {
  const first = bytes.find((byte) => byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09);
  return first === 0x5b || first === 0x7b;
}

/** The form's field `data`. */
function formData(text: string): string {
  const start = text.startsWith("data=") ? 0 : text.indexOf("&data=") + 1;
  if (!text.startsWith("data=", start)) return "";
  const end = text.indexOf("&", start);
  try {
    return decodeURIComponent(text.slice(start + 5, end === -1 ? undefined : end).replaceAll("+", " "));
  } catch {
    throw invalid("body", "The body has an escape that is not valid UTF-8.");
  }
}

/** A form turns `+` into a space, and some clients leave out the padding. */
function decodeBase64(text: string): Uint8Array {
  const packed = text.trim().replaceAll(" ", "+");
  let end = packed.length;
  while (packed.charAt(end - 1) === "=") end--;
  const digits = packed.slice(0, end);
  if (digits.length % 4 === 1 || !BASE64.test(digits)) throw notJson();
  const binary = atob(digits);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}
