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
function importSecret(secret: string): Promise<CryptoKey> {
  const bytes = bytesOf(secret.replace(/^whsec_/, ""));
  if (bytes === null || bytes.length === 0)
    throw new TypeError("The secret must be the secret of the endpoint, whsec_….");
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

/**
 * Returns the message of a webhook that was signed with the endpoint's secret in the last five minutes (Standard Webhooks).
 * Throws `WebhookVerificationError` otherwise. `body` is the received text, before any parsing. During a rotation give both
 * secrets.
 */
export async function verifyWebhook(
  headers: HeaderSource,
  body: string | Uint8Array | ArrayBuffer,
  secret: string | readonly string[],
): Promise<WebhookMessage> {
  const id = headerOf(headers, "webhook-id");
  const timestamp = headerOf(headers, "webhook-timestamp");
  const signatures = headerOf(headers, "webhook-signature").split(" ");
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1_000 - Number(timestamp)) > TOLERANCE_SECONDS) {
    throw new WebhookVerificationError("The message was not sent in the last five minutes.");
  }
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  const signedBytes = encoder.encode(`${id}.${timestamp}.${text}`);
  for (const each of typeof secret === "string" ? [secret] : secret) {
    const key = await importSecret(each);
    for (const signature of signatures) {
      const bytes = signature.startsWith("v1,") ? bytesOf(signature.slice(3)) : null;
      // `verify` compares in constant time. The signed text is Purser's own JSON.
      if (bytes !== null && (await crypto.subtle.verify("HMAC", key, bytes, signedBytes)))
        return JSON.parse(text) as WebhookMessage;
    }
  }
  throw new WebhookVerificationError("No signature of the message matches the secret.");
}
