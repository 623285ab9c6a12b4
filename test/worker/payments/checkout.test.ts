import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { listBalancesAsOf } from "../../../src/books/credits/list-as-of.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld, SIGNING_SECRET, signatureOf } from "../../support/payments.ts";
import { charge, eventOf, refund, session } from "../../support/stripe-events.ts";
import { makeClient, makeCtx } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

const completed = "checkout.session.completed";
const later = "checkout.session.async_payment_succeeded";
const bought = { client_reference_id: "u", metadata: { pack: "two" }, payment_intent: "pi_1" };
const both = (tokens: number, cents: number, status: string) => [
  ["tokens", tokens, status],
  ["cents", cents, status],
];

it("a checkout session grants its pack once even if it is delivered several times", async () => {
  const w = await paymentsWorld();
  const event = eventOf(completed, w.nowS, session("cs_1", bought));
  const first = await w.send(event);
  expect(first.body).toEqual({ received: true, outcome: "granted", paymentKey: "pi_1" });
  const stored = await w.stored();
  expect(await w.deliver(event)).toBe("ignored");
  expect(await w.deliver(eventOf(later, w.nowS + 1, session("cs_1", bought)))).toBe("remembered");
  expect(await w.deliver(event)).toBe("ignored");
  expect((await w.stored()).map((rows) => rows.length)).toEqual([1, 2, 1, 2, 2, 0, 0]);
  expect(stored[3]).toEqual((await w.stored())[3]);
  expect(await w.balances("u")).toEqual(both(400, 5, "active"));
  const entries = await w.history("u");
  expect(entries.map((entry: { note: string }) => entry.note)).toEqual(
    Array(2).fill("Stripe checkout.session.completed: cs_1"),
  );
  const listed = await w.call("GET", "/api/v1/credits?userId=u&externalRef=stripe:pi_1", { key: w.app.keys.sk_live });
  expect(listed.body.credits).toHaveLength(2);
});

it("a checkout session grants once for twenty concurrent deliveries of two events", async () => {
  const w = await paymentsWorld();
  const events = [eventOf(completed, w.nowS, session("cs_1", bought)), eventOf(later, w.nowS, session("cs_1", bought))];
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, index) => w.deliver(events[index % 2] ?? expect.fail())),
  );
  expect(outcomes.filter((outcome) => outcome === "granted")).toHaveLength(1);
  expect(await w.balances("u")).toEqual(both(400, 5, "active"));
});

it("a checkout session grants an item pack as often as its quantity says, from 1 to 100, and is unmatched with another quantity", async () => {
  const w = await paymentsWorld();
  const buy = (n: number, quantity: string) => {
    const fields = { client_reference_id: `u${n}`, metadata: { pack: "two", quantity }, payment_intent: `pi_${n}` };
    return w.deliver(eventOf(completed, w.nowS, session(`cs_${n}`, fields)));
  };
  for (const [n, quantity] of [1, 3, 100].entries()) {
    expect(await buy(n, `${quantity}`)).toBe("granted");
    expect(await w.balances(`u${n}`)).toEqual(both(400 * quantity, 5 * quantity, "active"));
  }
  for (const [n, quantity] of ["0", "101", "1.5", "-1", "three"].entries()) {
    expect(await buy(10 + n, quantity)).toBe("unmatched");
    expect(await w.balances(`u${10 + n}`)).toEqual([]);
  }
  const unmatched = (await w.payments()).filter(({ status }: { status: string }) => status === "unmatched");
  expect(unmatched.map(({ reason }: { reason: string }) => reason)).toEqual(Array(5).fill("quantity"));
});

it("a checkout session waits for a payment that takes days, and needs no payment intent", async () => {
  const w = await paymentsWorld();
  const fields = { metadata: { pack: w.packs.items, user: "u" } };
  expect(await w.deliver(eventOf(completed, w.nowS, session("cs_1", { ...fields, payment_status: "unpaid" })))).toBe(
    "ignored",
  );
  expect(await w.payments()).toEqual([]);
  const paid = await w.send(
    eventOf(later, w.nowS + 86_400, session("cs_1", { ...fields, payment_status: "no_payment_required" })),
  );
  expect(paid.body).toEqual({ received: true, outcome: "granted", paymentKey: "cs_1" });
  expect(await w.balances("u")).toEqual(both(400, 5, "active"));
});

it("a checkout session tops up a wallet by the amount in the setting's currency, or by its quantity", async () => {
  const w = await paymentsWorld();
  const grant = (id: string, fields: object, pack = "wallet", metadata = {}) =>
    w.deliver(
      eventOf(completed, w.nowS, session(id, { client_reference_id: id, metadata: { pack, ...metadata }, ...fields })),
    );
  expect(await grant("a", { amount_subtotal: 1500, amount_total: 1200 })).toBe("granted");
  expect(await w.balances("a")).toEqual([["cents", 1500, "active"]]);
  expect(await grant("b", { currency: "eur" }, "wallet", { quantity: "12.5" })).toBe("granted");
  expect(await w.balances("b")).toEqual([["cents", 12.5, "active"]]);
  expect(await grant("c", {}, "tokens", { quantity: "0.001" })).toBe("granted");
  expect(await w.balances("c")).toEqual([["tokens", 0.001, "active"]]);
  const refused = [
    ["currency", { currency: "eur" }, "wallet", {}],
    ["quantity", {}, "tokens", {}],
    ["quantity", { amount_subtotal: 0 }, "wallet", {}],
    ["quantity", {}, "tokens", { quantity: "1.0001" }],
    ["quantity", {}, "tokens", { quantity: "-1" }],
    ["quantity", {}, "tokens", { quantity: "1e3" }],
    ["quantity", {}, "tokens", { quantity: "9000000000000" }],
    ["no_pack", {}, "Nothing", {}],
    ["no_user", { client_reference_id: null }, "two", {}],
    ["no_user", { client_reference_id: "\u0007" }, "two", {}],
  ] as const;
  for (const [index, [reason, fields, pack, metadata]] of refused.entries()) {
    expect(await grant(`u_${index}`, fields, pack, metadata)).toBe("unmatched");
    const [payment] = await w.payments("&status=unmatched&limit=1");
    expect(payment).toMatchObject({ status: "unmatched", reason, grants: [] });
    expect(await w.balances(`u_${index}`)).toEqual([]);
    w.clock.advance(1);
  }
});

it("a checkout session above the test quota is unmatched, and is granted if it is delivered again when there is room", async () => {
  const w = await paymentsWorld();
  const answer = await w.set({ signingSecrets: [SIGNING_SECRET] }, "test");
  expect(answer.status).toBe(200);
  const event = { ...eventOf(completed, w.nowS, session("cs_1", bought)), livemode: false };
  const deliver = async (quota: string) => {
    const body = JSON.stringify(event);
    const headers = { "stripe-signature": await signatureOf(body, w.clock) };
    const call = makeClient(w.clock, { TEST_BALANCE_QUOTA: quota });
    return (await call("POST", `/api/v1/stripe/${w.app.appId}/test`, { body, headers })).body.outcome;
  };
  const listed = async () =>
    (await w.admin("GET", `${w.path}/payments?mode=test`, { key: env.ADMIN_TOKEN })).body.payments;
  expect(await deliver("1")).toBe("unmatched");
  expect(await deliver("1")).toBe("ignored");
  expect(await listed()).toMatchObject([{ status: "unmatched", reason: "quota", grants: [], userId: "u" }]);
  expect(await deliver("2")).toBe("granted");
  expect(await listed()).toMatchObject([
    { status: "granted", reason: null, grants: [{ initial: 400 }, { initial: 5 }] },
  ]);
});

it("a checkout session for another product or without a sale is ignored and stores nothing", async () => {
  const w = await paymentsWorld();
  for (const fields of [{ payment_intent: "pi_1" }, { ...bought, mode: "setup" }, { mode: "subscription" }]) {
    expect(await w.deliver(eventOf(completed, w.nowS, session("cs_1", fields)))).toBe("ignored");
  }
  expect(await w.deliver(eventOf("customer.created", w.nowS, { id: "cus_1", object: "customer" }))).toBe("ignored");
  expect((await w.stored()).flat()).toEqual([]);
});

it("a checkout session that arrives after its refund is granted and taken back in one batch", async () => {
  const w = await paymentsWorld();
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 9, charge("ch_1", "pi_1", 250)))).toBe("remembered");
  expect((await w.payments())[0]).toMatchObject({ paymentKey: "pi_1", status: "waiting", refunded: 250, grants: [] });
  expect(await w.deliver(eventOf(completed, w.nowS, session("cs_1", bought)))).toBe("granted");
  expect(await w.balances("u")).toEqual(both(300, 3.75, "active"));
  const [payment] = await w.payments();
  expect(payment).toMatchObject({ status: "granted", captured: 1000, refunded: 250, withheld: 0, userId: "u" });
  expect(payment.grants.map((grant: { taken: number; short: number }) => [grant.taken, grant.short])).toEqual([
    [100, 0],
    [1.25, 0],
  ]);
  expect(payment.events.map((event: { outcome: string }) => event.outcome)).toEqual(["granted", "remembered"]);
  const failed = refund("re_1", "ch_1", "pi_1", 250, "failed");
  expect(await w.deliver(eventOf("refund.failed", w.nowS + 20, failed))).toBe("restored");
  expect(await w.balances("u")).toEqual(both(400, 5, "active"));
});

it("a checkout session that was completely taken back and then restored is shown as revoked at a moment in between", async () => {
  const w = await paymentsWorld();
  await w.deliver(eventOf(completed, w.nowS, session("cs_1", bought)));
  w.clock.advance(1_000);
  await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 1_000)));
  const between = w.clock.ms;
  w.clock.advance(1_000);
  const failed = refund("re_1", "ch_1", "pi_1", 1_000, "failed");
  expect(await w.deliver(eventOf("refund.failed", w.nowS + 2, failed))).toBe("restored");
  expect(await w.balances("u")).toEqual(both(400, 5, "active"));
  const asOf = new Date(between).toISOString();
  const listed = await w.call("GET", `/api/v1/credits?userId=u&asOf=${asOf}`, { key: w.app.keys.sk_live });
  expect(listed.body.credits.map(({ status }: { status: string }) => status)).toEqual(["revoked", "revoked"]);
  const page = await listBalancesAsOf(makeCtx(w.app.environments.live, w.clock), "u", between, { limit: 10 });
  expect(page.balances.map(({ past }) => past?.status)).toEqual(["revoked", "revoked"]);
});
