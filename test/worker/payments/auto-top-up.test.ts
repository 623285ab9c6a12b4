import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { topUp } from "../../../examples/auto-top-up.mjs";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { eventOf, paymentIntent } from "../../support/stripe-events.ts";
import { makeEndpoint, storedMessages } from "../../support/webhooks.ts";

afterAll(expectLedgerInvariants);

/** The example of auto top-up with Purser, a store, and a Stripe that charges once for each key and sends its event. */
async function shop() {
  const w = await paymentsWorld();
  const environment = w.app.environments.live;
  await makeEndpoint(environment);
  const alert = { mode: "live", name: "Top up", unit: "cents", below: { amount: 200 } };
  expect((await w.admin("POST", `${w.path}/alerts`, { key: env.ADMIN_TOKEN, body: alert })).status).toBe(200);
  expect((await w.post("credits/grant", { userId: "u", packId: "Wallet", quantity: 300 })).status).toBe(200);
  const charged = new Set<string>();
  const intents: { status: string; metadata: Record<string, string> }[] = [];
  const state = { isOff: false, isDeclined: false, reserved: new Set<string>() };
  const stripe = {
    paymentIntents: {
      create: async ({ amount, metadata }: { amount: number; metadata: object }, by: { idempotencyKey: string }) => {
        if (state.isDeclined) throw { type: "StripeCardError", code: "card_declined" };
        charged.add(by.idempotencyKey);
        const fields = { amount, amount_received: amount, metadata };
        const id = `pi_${[...charged].indexOf(by.idempotencyKey)}`;
        await w.deliver(eventOf("payment_intent.succeeded", w.nowS, paymentIntent(id, fields)));
        intents.push({ status: "succeeded", metadata: metadata as Record<string, string> });
        return { status: "succeeded" };
      },
      search: async ({ query }: { query: string }) => ({
        data: intents.filter(({ metadata }) => query.includes(`"${metadata.topup}"`)),
      }),
    },
  };
  const store = {
    customerOf: async () => ({ customer: "cus_1", paymentMethod: "pm_1", isOff: state.isOff }),
    reserve: async (key: string, _: string, __: string, amount: number, max: number) => {
      if (!state.reserved.has(key) && (state.reserved.size + 1) * amount > max) return false;
      state.reserved.add(key);
      return true;
    },
    release: async (key: string) => {
      state.reserved.delete(key);
    },
    switchOff: async () => {
      state.isOff = true;
    },
  };
  let spends = 0;
  /** Spends, and passes each new `credits.low` to the example twice, because a webhook may arrive twice. */
  const spend = async (cents: number): Promise<string[]> => {
    const before = new Set((await storedMessages(environment)).map(({ id }) => id));
    spends += 1;
    const use = { userId: "u", event: "chat", eventId: `e${spends}`, quantities: { count: 0, cents } };
    expect((await w.post("usage/events", use)).status).toBe(200);
    const answers: string[] = [];
    for (const { id, type, data } of await storedMessages(environment)) {
      if (before.has(id) || type !== "credits.low") continue;
      const message = { type, timestamp: new Date(w.clock.ms).toISOString(), appId: w.app.appId, mode: "live", data };
      for (let time = 0; time < 2; time++) answers.push(await topUp(message, { stripe, store }));
    }
    return answers;
  };
  const cents = async () => (await w.balances("u")).reduce((sum, [, amount]) => sum + amount, 0);
  return { charged, state, spend, cents };
}

it("the example tops up once each time the balance falls below the threshold, up to the month's cap", async () => {
  const { charged, spend, cents } = await shop();
  expect(await spend(50)).toEqual([]);
  expect(await spend(60)).toEqual(["succeeded", "succeeded"]);
  expect([await cents(), charged.size]).toEqual([1190, 1]);
  for (let charges = 2; charges <= 5; charges++) {
    expect(await spend(1000)).toEqual(["succeeded", "succeeded"]);
    expect([await cents(), charged.size]).toEqual([1190, charges]);
  }
  expect(await spend(1000)).toEqual(["capped", "capped"]);
  expect([await cents(), charged.size]).toEqual([190, 5]);
});

it("the example grants nothing and is switched off if the card is declined", async () => {
  const { charged, state, spend, cents } = await shop();
  state.isDeclined = true;
  expect(await spend(150)).toEqual(["declined", "off"]);
  expect([await cents(), charged.size, state.reserved.size, state.isOff]).toEqual([150, 0, 0, true]);
});
