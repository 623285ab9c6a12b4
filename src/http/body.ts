import type { Context } from "hono";
import { invalid, PurserError } from "../errors.ts";
import { type AppEnv, factory } from "./factory.ts";
import { assertJsonShape } from "./json-shape.ts";

export const bodyBytesMax = 1024 * 1024;
/** The most bytes that are unpacked or parsed before the key is known (L2). */
export const unknownBytesMax = 64 * 1024;

/** The client went away amid its upload, so nobody reads the refusal. It is no fault of ours. */
function cutOff(cause: unknown): never {
  throw new PurserError("invalid_request", "The body ended before it was complete.", { param: "body", cause });
}

/**
 * Reads the whole body. Throws `payload_too_large` when it is over 1 MiB, and leaves the rest to drain-body.ts. Hono's `bodyLimit`
 * takes a `content-length` as true, and an upload that broke off as a bug.
 */
async function readWithin(request: Request): Promise<Uint8Array<ArrayBuffer>> {
  const tooLarge = () =>
    new PurserError("payload_too_large", `The body is larger than ${bodyBytesMax} bytes (1 MiB). Send less at once.`);
  const announced = Number(request.headers.get("content-length") ?? Number.NaN);
  if (announced > bodyBytesMax) throw tooLarge();
  // Over HTTP a body is not longer than its content-length. A request from another Worker may be, so it is checked again.
  if (announced > 0) {
    const bytes = new Uint8Array(await request.arrayBuffer().catch(cutOff));
    if (bytes.byteLength > bodyBytesMax) throw tooLarge();
    return bytes;
  }
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const reader = request.body?.getReader();
  try {
    for (;;) {
      const { done, value } = (await reader?.read().catch(cutOff)) ?? { done: true };
      if (done) break;
      size += value.byteLength;
      if (size > bodyBytesMax) throw tooLarge();
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
 * The body of at most 1 MiB, of any type; also sets `bodyBytes`. Where a key opens the request and the body is above 64 KiB, the key
 * is asked for first, so that nobody without one has it parsed (L2).
 */
export async function readBytes(c: Context<AppEnv>): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = c.get("bodyBytes") ?? (await readWithin(c.req.raw));
  c.set("bodyBytes", bytes);
  if (bytes.byteLength > unknownBytesMax) await c.get("checkKey")?.();
  return bytes;
}

/** Reads a body of at most 1 MiB, of any type, and sets `bodyBytes`. */
export const limitBody = factory.createMiddleware(async (c, next) => {
  await readBytes(c);
  await next();
});

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

/** A body's text, for the JSON validator. Bytes that are not UTF-8 are refused, because a lenient reader could turn two ids into one. */
export function bodyTextOf(bytes: Uint8Array): string {
  assertJsonShape(bytes);
  try {
    return strictUtf8.decode(bytes);
  } catch {
    const isGzip = bytes[0] === 0x1f && bytes[1] === 0x8b;
    throw invalid(
      "body",
      isGzip ? "The body is compressed. Send plain JSON." : "The body is not valid UTF-8. Encode it so.",
    );
  }
}

/** Reads a body of at most 1 MiB as UTF-8, for any declared type, and sets `bodyText` for the JSON validator. */
export const readBody = factory.createMiddleware(async (c, next) => {
  c.set("bodyText", bodyTextOf(await readBytes(c)));
  await next();
});

/** Like `readBody`, for a POST without fields. An absent or empty body is read as `{}`. */
export const readNoFields = factory.createMiddleware((c, next) =>
  readBody(c, async () => {
    if (c.get("bodyText") === "") c.set("bodyText", "{}");
    await next();
  }),
);

/** More than the largest pack has in its form. Each field costs memory, however short it is. */
const FIELDS_MAX = 25_000;
const AMPERSAND = 0x26;

function assertFewFields(bytes: Uint8Array): void {
  let count = 0;
  // Parts of a multipart form are longer, and so there are fewer.
  for (const byte of bytes) if (byte === AMPERSAND && ++count === FIELDS_MAX) throw tooManyFields();
}

const tooManyFields = () => new PurserError("payload_too_large", `A form has at most ${FIELDS_MAX} fields.`);

const IS_FORM = /^(application\/x-www-form-urlencoded|multipart\/form-data)\s*(;|$)/i;

/** The text fields of a form of at most 1 MiB; of several with one name, the last. Empty when the request has no form. */
export async function readForm(request: Request): Promise<Record<string, string>> {
  const bytes = await readWithin(request);
  const contentType = request.headers.get("content-type") ?? "";
  if (!IS_FORM.test(contentType)) return {};
  assertFewFields(bytes);
  const whole = new Response(bytes, { headers: { "content-type": contentType } });
  const form = await whole.formData().catch((cause: unknown) => {
    throw new PurserError("invalid_request", "The form is malformed.", { param: "form", cause });
  });
  return Object.fromEntries([...form].filter((field): field is [string, string] => typeof field[1] === "string"));
}
