import type { AddressInfo } from "node:net";
import Stripe from "stripe";
import { afterAll, beforeAll, expect, it } from "vitest";
import { backend } from "../../examples/stripe-webhook.mjs";
import { ADMIN_TOKEN, type ServedApp, type Server, startServer } from "./support/server.ts";

const webhookSecret = "whsec_of_the_tests";
let server: Server;
let app: ServedApp;
let shop: ReturnType<typeof backend>;

beforeAll(async () => {
  server = await startServer();
  app = await server.makeApp();
  const pack = await fetch(`${server.url}/api/v1/admin/apps/${app.appId}/packs`, {
    method: "POST",
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify({
      packName: "Starter",
      items: [
        { amount: 1_000, unit: "tokens" },
        { amount: 5, unit: "count" },
      ],
    }),
  });
  expect(pack.status).toBe(200);
  shop = backend({ webhookSecret, purserUrl: server.url, secretKey: app.keys.sk_live });
  await new Promise<void>((resolve) => shop.listen(0, "127.0.0.1", resolve));
});
afterAll(async () => {
  shop.close();
  await server.close();
});

function checkout(user: string, paymentStatus = "paid"): string {
  const session = {
    id: `cs_of_${user}`,
    object: "checkout.session",
    payment_status: paymentStatus,
    client_reference_id: user,
    metadata: { pack: "starter" },
  };
  return JSON.stringify({
    id: "evt_1",
    object: "event",
    type: "checkout.session.completed",
    data: { object: session },
  });
}

async function deliver(payload: string, secret = webhookSecret): Promise<{ status: number; text: string }> {
  // A server that listens on a TCP port has an address of this form.
  const { port } = shop.address() as AddressInfo;
  const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret });
  const response = await fetch(`http://127.0.0.1:${port}/`, {
    method: "POST",
    headers: { "stripe-signature": signature },
    body: payload,
  });
  return { status: response.status, text: await response.text() };
}

async function creditsOf(user: string): Promise<{ remaining: number }[]> {
  const response = await fetch(`${server.url}/api/v1/credits?userId=${user}`, {
    headers: { authorization: `Bearer ${app.keys.sk_live}` },
  });
  const { credits } = (await response.json()) as { credits: { remaining: number }[] };
  return credits;
}

it("grants once what a signed checkout bought, however often Stripe delivers it", async () => {
  const answers = await Promise.all([1, 2, 3].map(() => deliver(checkout("buyer"))));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
  expect((await creditsOf("buyer")).map(({ remaining }) => remaining).sort()).toEqual([1_000, 5]);
});

it("grants nothing for a webhook that Stripe did not sign", async () => {
  expect((await deliver(checkout("forger"), "whsec_of_somebody_else")).status).toBe(400);
  expect(await creditsOf("forger")).toEqual([]);
});

it("grants nothing for a checkout that is not paid yet", async () => {
  expect(await deliver(checkout("waiter", "unpaid"))).toEqual({ status: 200, text: "null" });
  expect(await creditsOf("waiter")).toEqual([]);
});
