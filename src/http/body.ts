import { invalid, PurserError } from "../errors.ts";
import { factory } from "./factory.ts";

export const bodyBytesMax = 1024 * 1024;

/** The whole body; `payload_too_large` when it is larger than may be. What is left of it is left: drain.ts reads it off. */
async function readWithin(request: Request): Promise<Uint8Array<ArrayBuffer>> {
  const tooLarge = () => new PurserError("payload_too_large", `The body is larger than ${bodyBytesMax} bytes.`);
  const announced = Number(request.headers.get("content-length") ?? Number.NaN);
  if (announced > bodyBytesMax) throw tooLarge();
  // Over HTTP no more comes than was announced, and chunks announce nothing; another Worker may announce what it likes.
  if (announced > 0) {
    const bytes = new Uint8Array(await request.arrayBuffer());
    if (bytes.byteLength > bodyBytesMax) throw tooLarge();
    return bytes;
  }
  const parts: Uint8Array<ArrayBuffer>[] = [];
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

/** Holds a body to 1 MiB, whatever is in it, and sets `bodyBytes`. */
export const limitBody = factory.createMiddleware(async (c, next) => {
  c.set("bodyBytes", await readWithin(c.req.raw));
  await next();
});

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

/**
 * Reads a body of at most 1 MiB as strict UTF-8, whatever its declared type, and sets `bodyText` for the validator of JSON.
 * Bytes that are not UTF-8 are refused: read leniently, two ids could become one.
 */
export const readBody = factory.createMiddleware(async (c, next) => {
  const bytes = await readWithin(c.req.raw);
  try {
    c.set("bodyText", strictUtf8.decode(bytes));
  } catch {
    throw invalid("body", "The body is not valid UTF-8.");
  }
  await next();
});

/** As `readBody`, for a POST that takes no fields: a body that is absent or empty stands for `{}`. */
export const readNoFields = factory.createMiddleware((c, next) =>
  readBody(c, async () => {
    if (c.var.bodyText === "") c.set("bodyText", "{}");
    await next();
  }),
);

const IS_FORM = /^(application\/x-www-form-urlencoded|multipart\/form-data)\s*(;|$)/i;

/** The texts of a form of at most 1 MiB, the last of each name; none when the request holds no form. */
export async function readForm(request: Request): Promise<Record<string, string>> {
  const bytes = await readWithin(request);
  const contentType = request.headers.get("content-type") ?? "";
  if (!IS_FORM.test(contentType)) return {};
  const whole = new Response(bytes, { headers: { "content-type": contentType } });
  const form = await whole.formData().catch((cause: unknown) => {
    throw new PurserError("invalid_request", "The form is malformed.", { param: "form", cause });
  });
  return Object.fromEntries([...form].filter((field): field is [string, string] => typeof field[1] === "string"));
}
