import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import page from "../../../docs/payments.md?raw";
import { STRIPE_EVENTS } from "../../../src/payments/stripe-event.ts";
import { type SetStripeInput, setStripe } from "../../../src/payments/stripe-setting.ts";
import { hookedD1 } from "../../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld, SIGNING_SECRET, signatureOf } from "../../support/payments.ts";
import { expectError } from "../../support/rejections.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";
import { makeAdminCtx } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

const completed = "checkout.session.completed";

/** An unmatched payment of 1000 that names an unknown pack, of which 250 were refunded. */
async function unmatchedWorld() {
  const w = await paymentsWorld();
  const fields = { client_reference_id: "u", metadata: { pack: "gone" }, payment_intent: "pi_1" };
  const event = eventOf(completed, w.nowS, session("cs_1", fields));
  expect(await w.deliver(event)).toBe("unmatched");
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 250)))).toBe("remembered");
  expect((await w.payments())[0]).toMatchObject({ status: "unmatched", reason: "no_pack", refunded: 250 });
  return { ...w, event };
}

it("a payment that is settled by hand is granted once, less its refunds, and can be refunded like any other", async () => {
  const w = await unmatchedWorld();
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => w.settle("cs_1", { userId: "v", packId: "wallet" })),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
  expect(new Set(answers.map(({ body }) => JSON.stringify(body))).size).toBe(1);
  expect(answers.filter(({ headers }) => headers.get("idempotent-replayed") === null)).toHaveLength(1);
  expect(answers[0]?.body).toMatchObject({ remaining: 750, expiresAt: null });
  expect(await w.balances("v")).toEqual([["cents", 750, "active"]]);
  expect(await w.deliver(w.event)).toBe("ignored");
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 2, charge("ch_1", "pi_1", 1000)))).toBe("taken");
  expect(await w.balances("v")).toEqual([["cents", 0, "revoked"]]);
  expect(await w.balances("u")).toEqual([]);
  expect((await w.payments())[0]).toMatchObject({ paymentKey: "pi_1", status: "granted", reason: null, userId: "v" });
  const audit = await w.admin("GET", `${w.path}/audit?limit=1`, { key: env.ADMIN_TOKEN });
  expect(audit.body.entries[0]).toMatchObject({ action: "payment.settled", target: "pi_1" });
});

it("a payment that is settled by hand is rejected without effect for an unknown payment, a rejected grant, and another request after the first", async () => {
  const w = await unmatchedWorld();
  const stored = await w.stored();
  expectError(await w.settle("pi_2", { userId: "v", packId: "two" }), "not_found", "paymentKey");
  expectError(await w.settle("pi_1", { userId: "v", packId: "gone" }), "credit_pack_not_found", "packId");
  expectError(await w.settle("pi_1", { userId: "v", packId: "tokens" }), "invalid_quantity", "quantity");
  expectError(await w.settle("pi_1", { userId: "", packId: "two" }), "invalid_request", "userId");
  expect(await w.stored()).toEqual(stored);
  expect((await w.settle("pi_1", { userId: "v", packId: "tokens", quantity: 5 })).status).toBe(200);
  const conflict = await w.settle("pi_1", { userId: "v", packId: "tokens", quantity: 6 });
  expectError(conflict, "idempotency_conflict", "paymentKey");
  expect(conflict.body.error.details).toEqual({ differs: ["quantity"] });
  expect(await w.balances("v")).toEqual([["tokens", 3.75, "active"]]);
  const granted = session("cs_2", { client_reference_id: "u", metadata: { pack: "two" }, payment_intent: "pi_2" });
  await w.deliver(eventOf(completed, w.nowS, granted));
  expectError(await w.settle("pi_2", { userId: "v", packId: "two" }), "idempotency_conflict", "paymentKey");
});

it("a payment that is settled by hand grants a pack with items as many times as the quantity says, 1 to 100", async () => {
  const w = await paymentsWorld();
  const about = { client_reference_id: "u", metadata: { pack: "gone" }, payment_intent: "pi_1" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", about)));
  for (const quantity of [0, 101, 1.5, -1]) {
    expectError(await w.settle("pi_1", { userId: "v", packId: "two", quantity }), "invalid_quantity", "quantity");
  }
  expect(await w.balances("v")).toEqual([]);
  const { status, headers } = await w.settle("pi_1", { userId: "v", packId: "two", quantity: 3 });
  expect([status, headers.get("purser-warning")]).toEqual([200, null]);
  expect((await w.balances("v")).map(([, amount]) => amount)).toEqual([1200, 15]);
});

it("a payment that is settled by hand is granted by the same event once its pack exists", async () => {
  const w = await unmatchedWorld();
  const body = { packName: "Gone", items: [{ amount: 8, unit: "count" }] };
  await w.admin("POST", `${w.path}/packs`, { key: env.ADMIN_TOKEN, body });
  expect(await w.deliver(w.event)).toBe("granted");
  expect(await w.balances("u")).toEqual([["count", 6, "active"]]);
});

it("the list of payments has pages, newest first, and filters by status", async () => {
  const w = await paymentsWorld();
  for (let index = 0; index < 5; index++) {
    const pack = index % 2 === 0 ? "two" : "gone";
    const fields = { client_reference_id: "u", metadata: { pack }, payment_intent: `pi_${index}` };
    await w.deliver(eventOf(completed, w.nowS, session(`cs_${index}`, fields)));
    w.clock.advance(1);
  }
  const walk = async (query: string) => {
    const keys: string[] = [];
    let cursor = "";
    do {
      const { body } = await w.admin("GET", `${w.path}/payments?mode=live&limit=2${query}${cursor}`, {
        key: env.ADMIN_TOKEN,
      });
      keys.push(...body.payments.map((payment: { paymentKey: string }) => payment.paymentKey));
      cursor = body.nextCursor === null ? "" : `&cursor=${body.nextCursor}`;
    } while (cursor !== "");
    return keys;
  };
  expect(await walk("")).toEqual(["pi_4", "pi_3", "pi_2", "pi_1", "pi_0"]);
  expect(await walk("&status=granted")).toEqual(["pi_4", "pi_2", "pi_0"]);
  expect(await walk("&status=waiting")).toEqual([]);
  const other = await w.admin("GET", `${w.path}/payments?mode=test`, { key: env.ADMIN_TOKEN });
  expect(other.body).toEqual({ payments: [], sums: [], nextCursor: null });
  expectError(
    await w.admin("GET", `${w.path}/payments?mode=live&cursor=x`, { key: env.ADMIN_TOKEN }),
    "invalid_request",
    "cursor",
  );
});

it("the setting of Stripe is shown without its secrets, keeps them if they are left out, and rotates them", async () => {
  const w = await paymentsWorld();
  const read = async () => (await w.admin("GET", `${w.path}/stripe?mode=live`, { key: env.ADMIN_TOKEN })).body;
  expect((await w.set({ signingSecrets: [SIGNING_SECRET] })).status).toBe(200);
  expect(await read()).toMatchObject({
    mode: "live",
    setting: { signingSecrets: ["whsec_…0001"], currency: "usd" },
    lastEventAt: null,
  });
  const set = await w.set({ currency: "eur", prices: [] });
  expect(set.body.setting).toEqual({ signingSecrets: ["whsec_…0001"], currency: "eur", prices: [] });
  await w.deliver(eventOf("payout.paid", w.nowS, { id: "po_1", object: "payout" }));
  expect((await read()).lastEventAt).toBe(new Date(w.clock.ms).toISOString());
  w.clock.advance(59_000);
  await w.deliver(eventOf("payout.paid", w.nowS, { id: "po_1", object: "payout" }));
  expect((await read()).lastEventAt).toBe(new Date(w.clock.ms).toISOString());
  const rotated = await w.set({ signingSecrets: ["whsec_of_the_tests_0002", SIGNING_SECRET] });
  expect(rotated.body.setting.signingSecrets).toEqual(["whsec_…0002", "whsec_…0001"]);
  await w.deliver(eventOf("payout.paid", w.nowS, { id: "po_1", object: "payout" }));
  expect((await w.set(null)).body).toMatchObject({ setting: null });
  const audit = await w.admin("GET", `${w.path}/audit`, { key: env.ADMIN_TOKEN });
  expect(audit.body.entries.map((entry: { action: string }) => entry.action)).toEqual(Array(4).fill("stripe.set"));
  expect(JSON.stringify(audit.body)).not.toContain("whsec_");
});

it("the setting of Stripe keeps secrets that were rotated just before a change without any was written", async () => {
  const w = await paymentsWorld();
  await w.set({ signingSecrets: [SIGNING_SECRET] });
  const rotated = { signingSecrets: ["whsec_of_the_tests_0002"], prices: [] };
  const d1 = hookedD1(env.DB, async (trip) => {
    if (trip === 2) expect((await w.set(rotated)).status).toBe(200);
  });
  const input: SetStripeInput = { mode: "live", setting: { currency: "eur", prices: [] } };
  const { setting } = await setStripe(makeAdminCtx(w.clock, d1), w.app.appId, input);
  expect(setting).toMatchObject({ signingSecrets: ["whsec_…0002"], currency: "eur" });
});

it("the setting of Stripe does not come back with its old secrets if it was removed before the change was written", async () => {
  const w = await paymentsWorld();
  await w.set({ signingSecrets: [SIGNING_SECRET] });
  const entries = async () =>
    (await w.admin("GET", `${w.path}/audit`, { key: env.ADMIN_TOKEN })).body.entries.length as number;
  const before = await entries();
  const d1 = hookedD1(env.DB, async (trip) => {
    if (trip === 2) expect((await w.set(null)).status).toBe(200);
  });
  const input: SetStripeInput = { mode: "live", setting: { currency: "eur", prices: [] } };
  const change = setStripe(makeAdminCtx(w.clock, d1), w.app.appId, input);
  await expect(change).rejects.toMatchObject({ code: "invalid_request", param: "setting.signingSecrets" });
  expect(await entries()).toBe(1 + before);
});

it("the setting of Stripe is rejected if it is invalid, and stays as it was", async () => {
  const w = await paymentsWorld();
  const before = (await w.admin("GET", `${w.path}/stripe?mode=live`, { key: env.ADMIN_TOKEN })).body;
  const price = { price: "price_1", packId: "two" };
  for (const [setting, code, param] of [
    [{ signingSecrets: [] }, "invalid_request", "setting.signingSecrets"],
    [{ signingSecrets: ["sk_live_1234567890"] }, "invalid_request", "setting.signingSecrets[0]"],
    [{ prices: [price, price] }, "invalid_request", "setting.prices"],
    [{ prices: [{ ...price, packId: "gone" }] }, "credit_pack_not_found", "setting.prices[0].packId"],
    [{ prices: [{ ...price, packId: "wallet" }] }, "invalid_request", "setting.prices[0].quantity"],
    [{ prices: [{ ...price, packId: "tokens", quantity: 0.0001 }] }, "invalid_request", "setting.prices[0].quantity"],
    [{ prices: [{ ...price, expires: "never" }] }, "invalid_request", "setting.prices[0].expires"],
    [{ currency: "USD" }, "invalid_request", "setting.currency"],
    [{ currencies: "usd" }, "invalid_request", "setting.currencies"],
  ] as const) {
    expectError(await w.set(setting), code, param);
  }
  expectError(await w.set({ prices: [] }, "test"), "invalid_request", "setting.signingSecrets");
  expect((await w.admin("GET", `${w.path}/stripe?mode=live`, { key: env.ADMIN_TOKEN })).body).toEqual(before);
});

it("the route of Stripe's events rejects in the documented order, and stores nothing", async () => {
  const w = await paymentsWorld();
  const event = eventOf(completed, w.nowS, session("cs_1", { client_reference_id: "u", metadata: { pack: "two" } }));
  const post = async (body: string, signature: string | null, place = `${w.app.appId}/live`) =>
    w.call("POST", `/api/v1/stripe/${place}`, {
      body,
      headers: signature === null ? {} : { "stripe-signature": signature },
    });
  const text = JSON.stringify(event);
  const sign = (body: string) => signatureOf(body, w.clock);
  expectError(await post(text, await sign(text), `${w.app.appId}/test`), "not_found");
  expectError(await post(text, await sign(text), "app_nobody/live"), "not_found");
  expectError(await post(text, await sign(text), `${w.app.appId}/staging`), "not_found");
  const large = "x".repeat(1024 * 1024 + 1);
  expectError(await post(large, null), "payload_too_large");
  expectError(await post("{", null), "invalid_signature", "Stripe-Signature");
  expectError(await post(text, await signatureOf(text, w.clock, "whsec_another")), "invalid_signature");
  expectError(await post(text.replace("evt_", "evt-"), await sign(text)), "invalid_signature");
  for (const body of ["{", "[]", "{}", JSON.stringify({ ...event, created: 1.5 })]) {
    expectError(await post(body, await sign(body)), "invalid_request");
  }
  const test = JSON.stringify({ ...event, livemode: false });
  expectError(await post(test, await sign(test)), "invalid_request", "livemode");
  const odd = JSON.stringify({ ...event, data: { object: { id: "cs_1" } } });
  expectError(await post(odd, await sign(odd)), "invalid_request");
  expect((await w.stored()).flat()).toEqual([]);
  expect(await w.balances("u")).toEqual([]);
});

it("the route of Stripe's events reads exactly the events that the documentation tells to subscribe to", () => {
  const [, block = ""] = /and these events:\s+```\n([\s\S]*?)```/.exec(page) ?? [];
  expect(block.trim().split(/\s+/).toSorted()).toEqual(STRIPE_EVENTS.toSorted());
});
