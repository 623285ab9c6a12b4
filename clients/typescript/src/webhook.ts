import type { webhooks } from "./generated/api.ts";

const TOLERANCE_SECONDS = 300;
const encoder = new TextEncoder();

type HeaderSource = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

type Sent<Webhook> = Webhook extends { post: { requestBody: { content: { "application/json": infer Message } } } }
  ? Message
  : never;

/** A message from Purser. `type` names its kind, which decides the type of `data`. */
export type WebhookMessage = { [Type in keyof webhooks]: Sent<webhooks[Type]> }[keyof webhooks];

/** The error for a message that Purser did not send, or that is older than five minutes. Respond to it with 400. */
export class WebhookVerificationError extends Error {
  override readonly name = "WebhookVerificationError";
}

function headerOf(headers: HeaderSource, name: string): string {
  const value = headers instanceof Headers ? headers.get(name) : headers[name];
  if (typeof value !== "string") throw new WebhookVerificationError(`The header ${name} is missing.`);
  return value;
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

/** Imports an endpoint's secret, `whsec_` and base64, as a key. */
async function importSecret(secret: unknown): Promise<CryptoKey> {
  const bytes = typeof secret === "string" ? bytesOf(secret.replace(/^whsec_/, "")) : null;
  if (bytes === null || bytes.length === 0)
    throw new TypeError("The secret must be the secret of the endpoint, whsec_…. Check that its variable is set.");
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

/** Returns the received text. Throws `TypeError` for a parsed body, whose text can no longer be known. */
function textOf(body: unknown): string {
  if (typeof body === "string") return body;
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return new TextDecoder().decode(body);
  throw new TypeError(
    "The body must be the received text or bytes, before any parsing: `await request.text()`, or in Express " +
      '`express.raw({ type: "application/json" })` for this route.',
  );
}

/**
 * Returns the message of a webhook that was signed with the endpoint's secret in the last five minutes (Standard Webhooks).
 * Throws `WebhookVerificationError` otherwise, and `TypeError` for a missing secret or a parsed body. `body` is the received text, before any parsing. During a rotation give both
 * secrets.
 */
export async function verifyWebhook(
  headers: HeaderSource,
  body: string | Uint8Array | ArrayBuffer,
  secret: string | readonly string[],
): Promise<WebhookMessage> {
  const keys = await Promise.all((Array.isArray(secret) ? secret : [secret]).map(importSecret));
  if (keys.length === 0) throw new TypeError("Give at least one secret of the endpoint, whsec_….");
  const text = textOf(body);
  const id = headerOf(headers, "webhook-id");
  const timestamp = headerOf(headers, "webhook-timestamp");
  const signatures = headerOf(headers, "webhook-signature").split(" ");
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1_000 - Number(timestamp)) > TOLERANCE_SECONDS) {
    throw new WebhookVerificationError("The message was not sent in the last five minutes.");
  }
  const signedBytes = encoder.encode(`${id}.${timestamp}.${text}`);
  for (const key of keys) {
    for (const signature of signatures) {
      const bytes = signature.startsWith("v1,") ? bytesOf(signature.slice(3)) : null;
      // `verify` compares in constant time. The signed text is Purser's own JSON.
      if (bytes !== null && (await crypto.subtle.verify("HMAC", key, bytes, signedBytes)))
        return JSON.parse(text) as WebhookMessage;
    }
  }
  throw new WebhookVerificationError("No signature of the message matches the secret.");
}
