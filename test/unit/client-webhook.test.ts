import { createHmac } from "node:crypto";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { verifyWebhook } from "../../clients/typescript/src/index.ts";

/** The example from the Standard Webhooks libraries. */
const WEBHOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const TIMESTAMP = 1_614_265_330;
const BODY = '{"test": 2432232314}';
const SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

const headersWith = (changes: Record<string, string> = {}) => ({
  "webhook-id": ID,
  "webhook-timestamp": String(TIMESTAMP),
  "webhook-signature": SIGNATURE,
  ...changes,
});
const sign = (secret: string, timestamp = TIMESTAMP, body = BODY) =>
  `v1,${createHmac("sha256", Buffer.from(secret.slice(6), "base64"))
    .update(`${ID}.${timestamp}.${body}`)
    .digest("base64")}`;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: TIMESTAMP * 1_000 });
});
afterEach(() => {
  vi.useRealTimers();
});

const refused = { name: "WebhookVerificationError" };

it("verifyWebhook returns the example message of Standard Webhooks, for every type of headers and body", async () => {
  const message = { test: 2432232314 };
  expect(await verifyWebhook(headersWith(), BODY, WEBHOOK_SECRET)).toEqual(message);
  expect(await verifyWebhook(new Headers(headersWith()), new TextEncoder().encode(BODY), WEBHOOK_SECRET)).toEqual(
    message,
  );
});

it("verifyWebhook accepts a message if one of its signatures fits one of the secrets, as during a rotation", async () => {
  const before = "whsec_b2xkIHNlY3JldCBvZiB0aGUgZW5kcG9pbnQ=";
  const both = headersWith({ "webhook-signature": `v1a,x ${sign(before)} ${SIGNATURE}` });
  expect(await verifyWebhook(both, BODY, WEBHOOK_SECRET)).toBeDefined();
  expect(await verifyWebhook(headersWith(), BODY, [before, WEBHOOK_SECRET])).toBeDefined();
  await expect(verifyWebhook(headersWith(), BODY, before)).rejects.toMatchObject(refused);
});

it("verifyWebhook says in words that the secret is missing or the body was parsed", async () => {
  const unknown = (value: unknown) => value as string;
  for (const secret of [undefined, null, "", [], [undefined], "whsec_"]) {
    const verified = verifyWebhook(headersWith(), BODY, unknown(secret));
    await expect(verified, String(secret)).rejects.toThrow(/secret.* of the endpoint, whsec_…/);
    await expect(verified).rejects.toBeInstanceOf(TypeError);
  }
  for (const body of [JSON.parse(BODY), null, undefined, [1]]) {
    const verified = verifyWebhook(headersWith(), unknown(body), WEBHOOK_SECRET);
    await expect(verified).rejects.toThrow("before any parsing");
    await expect(verified).rejects.toBeInstanceOf(TypeError);
  }
  expect(await verifyWebhook(headersWith(), Buffer.from(BODY), WEBHOOK_SECRET)).toBeDefined();
});

it("verifyWebhook rejects an altered body, another signature, a missing header, and a malformed signature", async () => {
  await expect(verifyWebhook(headersWith(), BODY.replace("test", "tset"), WEBHOOK_SECRET)).rejects.toMatchObject(
    refused,
  );
  await expect(verifyWebhook(headersWith({ "webhook-id": "msg_2" }), BODY, WEBHOOK_SECRET)).rejects.toMatchObject(
    refused,
  );
  for (const signature of [
    "",
    "v1,",
    "v1,!!",
    SIGNATURE.slice(3),
    SIGNATURE.replace("v1", "v2"),
    SIGNATURE.slice(0, 40),
  ]) {
    const headers = headersWith({ "webhook-signature": signature });
    await expect(verifyWebhook(headers, BODY, WEBHOOK_SECRET), signature).rejects.toMatchObject(refused);
  }
  for (const name of Object.keys(headersWith())) {
    const { [name]: _left, ...others } = headersWith() as Record<string, string>;
    await expect(verifyWebhook(others, BODY, WEBHOOK_SECRET), name).rejects.toMatchObject(refused);
  }
});

it("verifyWebhook accepts messages only within five minutes before or after now", async () => {
  for (const [seconds, isAccepted] of [
    [-301, false],
    [-300, true],
    [300, true],
    [301, false],
  ] as const) {
    const at = TIMESTAMP + seconds;
    const headers = headersWith({ "webhook-timestamp": String(at), "webhook-signature": sign(WEBHOOK_SECRET, at) });
    const verified = verifyWebhook(headers, BODY, WEBHOOK_SECRET).then(
      () => true,
      () => false,
    );
    expect(await verified, String(seconds)).toBe(isAccepted);
  }
  const headers = headersWith({ "webhook-timestamp": "soon" });
  await expect(verifyWebhook(headers, BODY, WEBHOOK_SECRET)).rejects.toMatchObject(refused);
});

it("verifyWebhook throws a TypeError for a malformed secret", async () => {
  for (const secret of ["", "whsec_", "whsec_ü"]) {
    await expect(verifyWebhook(headersWith(), BODY, secret)).rejects.toThrow(TypeError);
  }
});
