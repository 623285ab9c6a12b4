import { bodyLimit } from "hono/body-limit";
import { invalid, PurserError } from "../errors.ts";
import { factory } from "./factory.ts";

export const bodyBytesMax = 1024 * 1024;

/** Holds a body to 1 MiB, whatever is in it. */
export const limitBody = bodyLimit({
  maxSize: bodyBytesMax,
  onError: () => {
    throw new PurserError("payload_too_large", `The body is larger than ${bodyBytesMax} bytes.`);
  },
});

const IS_JSON = /^application\/([\w.-]+\+)?json\s*(;|$)/i;

/**
 * Reads a body of at most 1 MiB as strict UTF-8, whatever its declared type, so that the validator behind finds JSON.
 * Bytes that are not UTF-8 are refused: read leniently, two ids could become one.
 */
export const readBody = factory.createMiddleware((c, next) =>
  limitBody(c, async () => {
    const bytes = await c.req.arrayBuffer();
    let text: string;
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
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
    await next();
  }),
);
