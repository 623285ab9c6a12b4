import { createMiddleware } from "hono/factory";
import { invalid, PurserError } from "../errors.ts";
import { parseExactJson } from "../lib/exact-json.ts";
import { factory } from "./factory.ts";

export const bodyBytesMax = 1024 * 1024;

/** The whole body; `payload_too_large` when it is larger than may be. What is left of it is left: drain.ts reads it off. */
async function readWithin(request: Request): Promise<Uint8Array> {
  const tooLarge = () => new PurserError("payload_too_large", `The body is larger than ${bodyBytesMax} bytes.`);
  const announced = Number(request.headers.get("content-length") ?? Number.NaN);
  if (announced > bodyBytesMax) throw tooLarge();
  // Over HTTP no more comes than was announced, and chunks announce nothing; another Worker may announce what it likes.
  if (announced > 0) {
    const bytes = new Uint8Array(await request.arrayBuffer());
    if (bytes.byteLength > bodyBytesMax) throw tooLarge();
    return bytes;
  }
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = request.body?.getReader();
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true };
      if (done) break;
      size += value.byteLength;
      if (size > bodyBytesMax) throw tooLarge();
      parts.push(value);
    }
  } finally {
    reader?.releaseLock();
  }
  return parts.length === 1 && parts[0] !== undefined ? parts[0] : joined(parts, size);
}

function joined(parts: readonly Uint8Array[], size: number): Uint8Array {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return whole;
}

/** Holds a body to 1 MiB, whatever is in it, and keeps it for whoever reads it behind. */
export const limitBody = createMiddleware(async (c, next) => {
  if (c.req.raw.body !== null) c.req.raw = new Request(c.req.raw, { body: await readWithin(c.req.raw) });
  await next();
});

const IS_JSON = /^application\/([\w.-]+\+)?json\s*(;|$)/i;
const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

/**
 * Reads a body of at most 1 MiB as strict UTF-8, whatever its declared type, so that the validator behind finds JSON.
 * Bytes that are not UTF-8 are refused: read leniently, two ids could become one.
 */
export const readBody = factory.createMiddleware(async (c, next) => {
  const bytes = await readWithin(c.req.raw);
  let text: string;
  try {
    text = strictUtf8.decode(bytes);
  } catch {
    throw invalid("body", "The body is not valid UTF-8.");
  }
  if (!IS_JSON.test(c.req.header("content-type") ?? "")) {
    const headers = new Headers(c.req.raw.headers);
    headers.set("content-type", "application/json");
    c.req.raw = new Request(c.req.url, { method: c.req.method, headers });
  }
  // Hono declares the settled type but keeps, and awaits, a promise here.
  c.req.bodyCache.text = Promise.resolve(text) as unknown as string;
  // An amount is judged by its digits, which JSON.parse would round away.
  c.req.json = async <T>() => parseExactJson(text) as T;
  await next();
});
