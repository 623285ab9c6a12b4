/**
 * A backend for a payment provider that Purser does not support itself (Paddle, Lemon Squeezy, Polar). It verifies each webhook,
 * grants the paid pack with the payment's id as its reference, and refunds by this reference. Stripe needs no such backend: see
 * docs/payments.md. It runs on Node 20 without any package: `node examples/payments-webhook.mjs`.
 *
 * The event format is made up. Adapt `readEvent` to your provider's events, and `isSigned` to its signature.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { realpathSync } from "node:fs";
import { createServer } from "node:http";

/** Larger bodies are rejected. */
const BODY_BYTES_MAX = 1024 * 1024;

/** Returns whether the body was signed with the secret: HMAC-SHA-256 over the received bytes, in hex, as Lemon Squeezy signs. */
export function isSigned(body, signature, secret) {
  const expected = createHmac("sha256", secret).update(body).digest();
  const given = Buffer.from(String(signature ?? ""), "hex");
  return given.length === expected.length && timingSafeEqual(given, expected);
}

/** Returns the call to Purser for an event: a path and a body. Null for an event that needs no call. */
export function readEvent({ type, data }) {
  if (type === "payment.paid" && data.userId && data.pack) {
    // The reference is the idempotency key, so each payment is granted once.
    return { path: "grant", body: { userId: data.userId, packId: data.pack, externalRef: data.paymentId } };
  }
  if (type === "payment.refunded" && data.userId) {
    const share = { part: data.refundedCents, of: data.paidCents };
    const body = { userId: data.userId, externalRef: data.paymentId, refundRef: data.refundId, share };
    return { path: "refund", body: { ...body, reason: `Refund ${data.refundId}` } };
  }
  return null;
}

async function readBody(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > BODY_BYTES_MAX) return null;
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** Whether a retry of the same call can help. Purser rejects every other call again. */
const mayPass = (status) => status >= 500 || status === 429 || status === 401 || status === 403;

/** Returns whether a refund came before its grant. The provider sends the refund again, and by then the grant exists. */
const isEarly = (path, answer) => path === "refund" && answer?.error?.code === "credit_balance_not_found";

async function callPurser({ purserUrl, secretKey }, { path, body }) {
  try {
    const response = await fetch(`${purserUrl}/api/v1/credits/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(10_000),
    });
    return { status: response.status, answer: await response.json() };
  } catch {
    return { status: 503, answer: null };
  }
}

export function backend(settings) {
  return createServer(async (request, response) => {
    const reply = (status, value) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    const body = await readBody(request).catch(() => null);
    if (body === null) return reply(413, { error: "The body is too large." });
    if (!isSigned(body, request.headers["x-signature"], settings.webhookSecret)) {
      return reply(400, { error: "The signature does not verify." });
    }
    let asked = null;
    try {
      asked = readEvent(JSON.parse(body.toString("utf8")));
    } catch {
      // The body has a valid signature but is not JSON. A retry would not change it.
    }
    if (asked === null) return reply(200, { outcome: "ignored" });
    const { status, answer } = await callPurser(settings, asked);
    if (status === 200) return reply(200, { outcome: asked.path, answer });
    // The provider sends an event again after an error status.
    if (mayPass(status) || isEarly(asked.path, answer)) return reply(503, { outcome: "later" });
    // A retry cannot succeed. So log it, and return 200, or the provider would send it for days.
    console.error(JSON.stringify({ level: "error", refused: asked.path, code: answer?.error?.code }));
    return reply(200, { outcome: "refused", code: answer?.error?.code });
  });
}

if (import.meta.filename === realpathSync(process.argv[1])) {
  const {
    WEBHOOK_SECRET: webhookSecret,
    PURSER_URL: purserUrl,
    PURSER_SECRET_KEY: secretKey,
    PORT = "4242",
  } = process.env;
  if (!webhookSecret || !purserUrl || !secretKey)
    throw new Error("Set WEBHOOK_SECRET, PURSER_URL and PURSER_SECRET_KEY.");
  const server = backend({ webhookSecret, purserUrl, secretKey });
  server.listen(Number(PORT), () => console.log(`Give your provider http://localhost:${PORT} as its webhook.`));
}
