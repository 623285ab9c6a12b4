import { createHmac } from "node:crypto";
import type { AddressInfo } from "node:net";
import Stripe from "stripe";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { backend } from "../../examples/payments-webhook.mjs";
import { charge, eventOf, session } from "../support/stripe-events.ts";
import { ADMIN_TOKEN, type ServedApp, type Server, sharedServer } from "./support/server.ts";

const webhookSecret = "secret-of-the-provider";
const signingSecret = "whsec_of_the_tests_0001";
let server: Server;
let app: ServedApp;
let shop: ReturnType<typeof backend>;

const administer = async (method: string, path: string, body: object) => {
  const response = await fetch(`${server.url}/api/v1/admin/apps/${app.appId}/${path}`, {
    method,
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  expect(response.status).toBe(200);
};

beforeAll(async () => {
  server = await sharedServer();
  app = await server.makeApp();
  const items = [
    { amount: 1_000, unit: "tokens" },
    { amount: 5, unit: "count" },
  ];
  await administer("POST", "packs", { packName: "Starter", items });
  await administer("PUT", "stripe", { mode: "live", setting: { signingSecrets: [signingSecret] } });
  shop = backend({ webhookSecret, purserUrl: server.url, secretKey: app.keys.sk_live });
  await new Promise<void>((resolve) => shop.listen(0, "127.0.0.1", resolve));
});
afterAll(async () => {
  shop.close();
});

async function creditsOf(user: string): Promise<number[]> {
  const response = await fetch(`${server.url}/api/v1/credits?userId=${user}&includeExpired=true`, {
    headers: { authorization: `Bearer ${app.keys.sk_live}` },
  });
  const { credits } = (await response.json()) as { credits: { remaining: number }[] };
  return credits.map(({ remaining }) => remaining).toSorted((a, b) => b - a);
}

describe("Stripe's events, signed by Stripe's own package", () => {
  const deliver = async (event: object, secret = signingSecret) => {
    const payload = JSON.stringify(event);
    const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret });
    const response = await fetch(`${server.url}/api/v1/stripe/${app.appId}/live`, {
      method: "POST",
      headers: { "stripe-signature": signature },
      body: payload,
    });
    return { status: response.status, body: await response.json() };
  };

  it("grant once, and take back a refund's share, in the built Worker", async () => {
    const fields = { client_reference_id: "buyer", metadata: { pack: "starter" }, payment_intent: "pi_1" };
    const paid = eventOf("checkout.session.completed", 1_768_478_400, session("cs_1", fields));
    const answers = await Promise.all([1, 2, 3].map(() => deliver(paid)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await creditsOf("buyer")).toEqual([1_000, 5]);
    const half = eventOf("charge.refunded", 1_768_478_500, charge("ch_1", "pi_1", 500));
    expect((await deliver(half)).body).toEqual({ received: true, outcome: "taken", paymentKey: "pi_1" });
    expect(await creditsOf("buyer")).toEqual([500, 2.5]);
    expect(await deliver(half, "whsec_of_somebody_else")).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_signature" } },
    });
    expect(await creditsOf("buyer")).toEqual([500, 2.5]);
  });
});

describe("the backend for other providers", () => {
  async function deliver(event: object | string, secret = webhookSecret): Promise<{ status: number; body: unknown }> {
    const payload = typeof event === "string" ? event : JSON.stringify(event);
    // A server that listens on a TCP port has an address of this form.
    const { port } = shop.address() as AddressInfo;
    const response = await fetch(`http://127.0.0.1:${port}/`, {
      method: "POST",
      headers: { "x-signature": createHmac("sha256", secret).update(payload).digest("hex") },
      body: payload,
    });
    return { status: response.status, body: await response.json() };
  }
  const paid = (userId: string, pack = "starter") => ({
    type: "payment.paid",
    data: { userId, pack, paymentId: `txn_${userId}` },
  });
  const refunded = (userId: string, refundedCents: number, refundId = "rfd_1") => ({
    type: "payment.refunded",
    data: { userId, paymentId: `txn_${userId}`, refundId, refundedCents, paidCents: 1_000 },
  });

  it("grants a payment once, and takes a refund's share back once", async () => {
    const answers = await Promise.all([1, 2, 3].map(() => deliver(paid("ana"))));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await creditsOf("ana")).toEqual([1_000, 5]);
    for (let time = 0; time < 2; time++) expect((await deliver(refunded("ana", 300))).status).toBe(200);
    expect(await creditsOf("ana")).toEqual([700, 3.5]);
  });

  it("asks the provider to repeat a refund that arrives before its grant", async () => {
    expect(await deliver(refunded("ben", 500))).toEqual({ status: 503, body: { outcome: "later" } });
    await deliver(paid("ben"));
    expect((await deliver(refunded("ben", 500))).status).toBe(200);
    expect(await creditsOf("ben")).toEqual([500, 2.5]);
  });

  it("answers 2xx to events that can never succeed, and grants nothing", async () => {
    expect(await deliver(paid("cleo", "no such pack"))).toMatchObject({
      status: 200,
      body: { outcome: "refused", code: "credit_pack_not_found" },
    });
    expect(await deliver({ type: "customer.created", data: {} })).toMatchObject({ body: { outcome: "ignored" } });
    expect(await deliver("not JSON")).toEqual({ status: 200, body: { outcome: "ignored" } });
    expect((await deliver(paid("cleo"), "secret-of-somebody-else")).status).toBe(400);
    expect(await creditsOf("cleo")).toEqual([]);
  });
});
