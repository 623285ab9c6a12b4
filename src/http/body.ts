import type { Context } from "hono";
import { invalid, PurserError } from "../errors.ts";
import { textOfUtf8 } from "../lib/encoding.ts";
import { measureJson } from "../lib/json.ts";
import { type AppEnv, factory } from "./factory.ts";
import { BODY_BYTES_MAX, UNKNOWN_KEY_BYTES_MAX } from "./json-body.ts";

/** Rejects an upload that the client interrupted. As a rejection it is not logged as a bug of Purser. */
function rejectInterrupted(cause: unknown): never {
  throw new PurserError("invalid_request", "The body ended before it was complete.", { param: "body", cause });
}

const inWords = (bytes: number): string => (bytes < 1_048_576 ? `${bytes / 1_024} KiB` : `${bytes / 1_048_576} MiB`);

/**
 * Reads the whole body. Throws `payload_too_large` above `bytesMax`; `drainBody` then reads the rest. Hono's `bodyLimit` is not
 * used: it trusts `content-length`, and reports an interrupted upload as a bug.
 */
async function readWithinLimit(request: Request, bytesMax = BODY_BYTES_MAX): Promise<Uint8Array<ArrayBuffer>> {
  const tooLarge = () =>
    new PurserError(
      "payload_too_large",
      `The body is larger than ${bytesMax} bytes (${inWords(bytesMax)}). Send less at once.`,
    );
  const contentLength = Number(request.headers.get("content-length") ?? Number.NaN);
  if (contentLength > bytesMax) throw tooLarge();
  // Over HTTP a body is never longer than its content-length. A request from another Worker may be, so its length is checked
  // again.
  if (contentLength > 0) {
    const bytes = new Uint8Array(await request.arrayBuffer().catch(rejectInterrupted));
    if (bytes.byteLength > bytesMax) throw tooLarge();
    return bytes;
  }
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const reader = request.body?.getReader();
  try {
    for (;;) {
      const { done, value } = (await reader?.read().catch(rejectInterrupted)) ?? { done: true };
      if (done) break;
      size += value.byteLength;
      if (size > bytesMax) throw tooLarge();
      parts.push(value);
    }
  } finally {
    reader?.releaseLock();
  }
  return parts.length === 1 && parts[0] !== undefined ? parts[0] : joinParts(parts, size);
}

function joinParts(parts: readonly Uint8Array[], size: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return whole;
}

/**
 * Reads a body of at most 1 MiB, of any type, and sets `bodyBytes`. If the body is larger than 64 KiB and the route needs a key,
 * checks the key, so that Purser does not parse a large body from somebody without a key (L2).
 */
export async function readBytes(c: Context<AppEnv>): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = c.get("bodyBytes") ?? (await readWithinLimit(c.req.raw));
  c.set("bodyBytes", bytes);
  if (bytes.byteLength > UNKNOWN_KEY_BYTES_MAX) await c.get("checkKey")?.();
  return bytes;
}

/** Reads a body of at most 1 MiB, of any type, and sets `bodyBytes`. */
export const limitBody = factory.createMiddleware(async (c, next) => {
  await readBytes(c);
  await next();
});

/** Decodes a body for the JSON validator. Throws `invalid_request` for bytes that are not UTF-8, and beyond the limits of JSON (L1). */
function decodeBody(bytes: Uint8Array): string {
  // Parsing a small body cannot cost much.
  if (bytes.length > UNKNOWN_KEY_BYTES_MAX) assertJsonSize(bytes);
  const text = textOfUtf8(bytes);
  if (text === null) {
    const isGzip = bytes[0] === 0x1f && bytes[1] === 0x8b;
    throw invalid(
      "body",
      isGzip ? "The body is compressed. Send plain JSON." : "The body is not valid UTF-8. Encode it as UTF-8.",
    );
  }
  return text;
}

/** Reads a body of at most 1 MiB as UTF-8, for any declared type, and sets `bodyText` for the JSON validator. */
export const readBody = factory.createMiddleware(async (c, next) => {
  c.set("bodyText", decodeBody(await readBytes(c)));
  await next();
});

/** Does the same as `readBody` for a POST without fields. Reads an absent or empty body as `{}`. */
export const readNoFields = factory.createMiddleware((c, next) =>
  readBody(c, async () => {
    if (c.get("bodyText") === "") c.set("bodyText", "{}");
    await next();
  }),
);

/** The most fields of a form: more than the form of the largest pack has. Each field costs memory, however short it is. */
const FIELDS_MAX = 25_000;
const AMPERSAND = 0x26;

function assertFewFields(bytes: Uint8Array, fieldsMax: number): void {
  let count = 0;
  // A multipart form needs no check: each of its fields takes many bytes, so a body has room for few.
  for (const byte of bytes) if (byte === AMPERSAND && ++count === fieldsMax) throw tooManyFields(fieldsMax);
}

const tooManyFields = (fieldsMax: number) =>
  new PurserError("payload_too_large", `This form has at most ${fieldsMax} fields.`);

const IS_FORM = /^(application\/x-www-form-urlencoded|multipart\/form-data)\s*(;|$)/i;

/**
 * Returns the text fields of a form. If fields share a name, the last one counts. Returns no fields when the request has no form.
 * Throws `payload_too_large` above the limits, of which the smaller are for forms of people who are not signed in.
 */
export async function readForm(
  request: Request,
  { bytesMax = BODY_BYTES_MAX, fieldsMax = FIELDS_MAX } = {},
): Promise<Record<string, string>> {
  const bytes = await readWithinLimit(request, bytesMax);
  const contentType = request.headers.get("content-type") ?? "";
  if (!IS_FORM.test(contentType)) return {};
  assertFewFields(bytes, fieldsMax);
  const response = new Response(bytes, { headers: { "content-type": contentType } });
  const form = await response.formData().catch((cause: unknown) => {
    throw new PurserError("invalid_request", "The form is malformed.", { param: "form", cause });
  });
  return Object.fromEntries([...form].filter((field): field is [string, string] => typeof field[1] === "string"));
}

/** The most bytes of a rejected body that are read. A client that sends more may lose the connection and the response. */
const DRAINED_BYTES_MAX = 16 * 1024 * 1024;

/**
 * Reads the rest of the body after a rejection. Without this, a client that is still sending would have its connection reset and
 * would not see the rejection.
 */
export const drainBody = factory.createMiddleware(async (c, next) => {
  await next();
  if (c.res.status < 400) return;
  const { body } = c.req.raw;
  if (body === null || body.locked) return;
  const reader = body.getReader();
  try {
    for (let drained = 0; drained <= DRAINED_BYTES_MAX; ) {
      const { done, value } = await reader.read();
      if (done) return;
      drained += value.byteLength;
    }
    await reader.cancel();
  } catch {
    // The client closed the connection, so there is nobody to respond to.
  }
});

const CONTAINERS_MAX = 50_000;
const LEVELS_MAX = 1_000;

/**
 * Rejects a body that JSON.parse would turn into many times its size, or that is nested too deeply for a recursive reader (L1).
 */
function assertJsonSize(bytes: Uint8Array): void {
  const { levels, containers } = measureJson(bytes);
  if (levels > LEVELS_MAX) throw invalid("body", `must nest at most ${LEVELS_MAX} levels`);
  if (containers > CONTAINERS_MAX) throw invalid("body", `must have at most ${CONTAINERS_MAX} objects and lists`);
}
