import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { hookedD1 } from "../../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { PRICES } from "../../support/payment-story.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { charge, eventOf, refund, session } from "../../support/stripe-events.ts";
import { invoice, invoicePayment } from "../../support/stripe-invoices.ts";
import { makeEndpoint, storedMessages } from "../../support/webhooks.ts";
import { makeClient } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

const completed = "checkout.session.completed";
const user = "ada-who-leaves";

it("an erasure removes the user and the customer from payments, and no later event restores them", async () => {
  const w = await paymentsWorld();
  const buy = (id: string, pack: string, at = w.nowS) =>
    eventOf(
      completed,
      at,
      session(`cs_${id}`, { client_reference_id: user, metadata: { pack }, payment_intent: `pi_${id}` }),
    );
  const signup = (at: number) =>
    eventOf(completed, at, session("cs_s", { mode: "subscription", customer: "cus_ada", client_reference_id: user }));
  const bill = (id: string, about: object) =>
    eventOf(
      "invoice.paid",
      w.nowS,
      invoice(id, { customer: "cus_ada", lines: [{ id: "il_1", price: PRICES.items }], ...about }),
    );
  expect(await w.deliver(signup(w.nowS))).toBe("remembered");
  expect(await w.deliver(bill("in_1", { subscription: {} }))).toBe("granted");
  expect(await w.deliver(bill("in_2", { metadata: {}, paid: 0, total: 1000 }))).toBe("unmatched");
  expect(await w.deliver(buy("1", "wallet"))).toBe("granted");
  expect(await w.deliver(buy("2", "gone"))).toBe("unmatched");
  expect(await w.deliver(buy("3", "gone"))).toBe("unmatched");
  expect((await w.settle("pi_3", { userId: user, packId: "wallet" })).status).toBe(200);
  const names = async () => {
    const customers = await env.DB.prepare("SELECT * FROM stripe_customers WHERE environment_id = ?")
      .bind(w.app.environments.live.id)
      .all();
    const text = JSON.stringify([await w.stored(), await w.log(), customers.results]);
    return [user, "cus_ada"].filter((name) => text.includes(name));
  };
  expect(await names()).toEqual([user, "cus_ada"]);

  const erased = await w.post("erase-person", { distinctId: user, reason: "request" });
  expect(erased.body).toMatchObject({ status: "completed" });
  expect(await names()).toEqual([]);

  expect(await w.deliver(buy("4", "wallet"))).toBe("unmatched");
  expect(
    (await w.payments("&status=unmatched&limit=500")).map((payment: { reason: string }) => payment.reason),
  ).toContain("person_erased");
  for (const event of [
    buy("1", "wallet"),
    buy("4", "wallet"),
    signup(w.nowS + 9),
    bill("in_1", { subscription: {} }),
  ]) {
    expect(await w.deliver(event)).toBe("ignored");
  }
  // The erasure revoked the balances, so a refund takes nothing and restores nothing.
  await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 500)));
  await w.deliver(eventOf("refund.failed", w.nowS + 2, refund("re_1", "ch_1", "pi_1", 500, "failed")));
  expect(await names()).toEqual([]);
  expect(await w.balances(user)).toEqual([]);
  const of = (await w.payments("&status=granted")).find((payment: { names: string[] }) =>
    payment.names.includes("pi_1"),
  );
  expect(of.grants).toMatchObject([{ initial: 1000, taken: 0 }]);
});

it("an erasure removes the customer of a waiting invoice, and a repeated invoice does not store the customer again", async () => {
  const w = await paymentsWorld();
  const at = (seconds: number) => w.nowS + seconds;
  const about = { customer: "cus_ada", lines: [{ id: "il_1", price: PRICES.items }] };
  const unknown = eventOf("invoice.paid", at(0), invoice("in_1", { ...about, metadata: {}, paid: 0, total: 1000 }));
  const archived = { customer: "cus_ada", lines: [{ id: "il_1", price: PRICES.period }], subscription: { user } };
  const over = { start: at(-9), end: at(-1) };
  const named = eventOf(
    "invoice.paid",
    at(0),
    invoice("in_2", { ...archived, lines: [{ id: "il_1", price: PRICES.period, period: over }] }),
  );
  const fields = { mode: "subscription", customer: "cus_ada", client_reference_id: user };
  await w.deliver(eventOf(completed, at(0), session("cs_1", fields)));
  for (const event of [unknown, named]) expect(await w.deliver(event)).toBe("unmatched");
  expect(JSON.stringify([await w.stored(), await w.log()])).toContain("cus_ada");
  expect((await w.post("erase-person", { distinctId: user })).body).toMatchObject({ status: "completed" });
  for (const event of [unknown, named, unknown]) {
    expect(await w.deliver(event)).toBe("ignored");
    expect(JSON.stringify([await w.stored(), await w.log()])).not.toContain("cus_ada");
  }
  expect((await w.payments()).map(({ reason }: { reason: string }) => reason)).toEqual([
    "person_erased",
    "person_erased",
  ]);
});

it("a later invoice that names an erased user stores neither the user nor the customer", async () => {
  const w = await paymentsWorld();
  await w.post("credits/grant", { userId: user, packId: "Wallet", quantity: 1 });
  expect((await w.post("erase-person", { distinctId: user })).body).toMatchObject({ status: "completed" });
  const lines = [{ id: "il_1", price: PRICES.items }];
  const later = invoice("in_9", { customer: "cus_ada", lines, subscription: { user } });
  for (const outcome of ["unmatched", "ignored"]) {
    expect(await w.deliver(eventOf("invoice.paid", w.nowS + 9, later))).toBe(outcome);
    const stored = JSON.stringify([await w.stored(), await w.log()]);
    expect([user, "cus_ada"].filter((name) => stored.includes(name))).toEqual([]);
  }
  expect(await w.payments()).toMatchObject([{ status: "unmatched", reason: "person_erased", userId: null }]);
});

it("an invoice that waits for its payment intent and names an erased user is `person_erased` at its first delivery", async () => {
  const w = await paymentsWorld();
  await w.post("credits/grant", { userId: user, packId: "Wallet", quantity: 1 });
  expect((await w.post("erase-person", { distinctId: user })).body).toMatchObject({ status: "completed" });
  const about = { customer: "cus_ada", lines: [{ id: "il_1", price: PRICES.items }], metadata: { user } };
  const bill = eventOf("invoice.paid", w.nowS, invoice("in_9", about));
  const tie = eventOf("invoice_payment.paid", w.nowS + 1, invoicePayment("inpay_1", "in_9", "pi_9"));
  expect([await w.deliver(bill), await w.deliver(bill)]).toEqual(["unmatched", "ignored"]);
  expect(await w.deliver(tie)).toBe("remembered");
  expect(await w.payments()).toMatchObject([{ status: "unmatched", reason: "person_erased" }]);
  const stored = JSON.stringify([await w.stored(), await w.log()]);
  expect([user, "cus_ada"].filter((name) => stored.includes(name))).toEqual([]);
});

it("a refund after an erasure sends no message", async () => {
  const w = await paymentsWorld();
  const { live } = w.app.environments;
  const about = { client_reference_id: user, metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  await w.deliver(eventOf(completed, w.nowS, session("cs_1", about)));
  await makeEndpoint(live);
  expect((await w.post("erase-person", { distinctId: user })).body).toMatchObject({ status: "completed" });
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 500)))).toBe("taken");
  expect(await w.deliver(eventOf("refund.failed", w.nowS + 2, refund("re_1", "ch_1", "pi_1", 500, "failed")))).toBe(
    "restored",
  );
  const messages = await storedMessages(live);
  expect(messages.map(({ type, subject, data }) => [type, subject, Object.keys(data)])).toEqual([
    ["person.erased", null, ["erasureId"]],
  ]);
});

const over = (at: number) => [{ id: "il_1", price: PRICES.period, period: { start: at - 9, end: at - 1 } }];
const bill = (subscription: Readonly<Record<string, string>>) => (at: number) =>
  eventOf("invoice.paid", at, invoice("in_1", { customer: "cus_ada", lines: over(at), subscription }));
const [named, unnamed] = [bill({ user }), bill({})];
const about = { client_reference_id: user, metadata: { pack: "gone" }, payment_intent: "pi_1" };
const buy = (at: number) => eventOf(completed, at, session("cs_1", about));
const tie = (at: number) => eventOf("invoice_payment.paid", at, invoicePayment("inpay_1", "in_1", "pi_1"));
const subscription = { mode: "subscription", customer: "cus_ada", client_reference_id: user };
const signup = (at: number) => eventOf(completed, at, session("cs_s", subscription));
const refunded = (at: number) => eventOf("charge.refunded", at, charge("ch_1", "pi_1", 500));

// Other writes notice the first erasure of an environment by the settings snapshot, which it changes.
it.each([
  ["a session, by the first erasure", false, [], buy],
  ["a session", true, [], buy],
  ["an invoice", true, [], named],
  ["an invoice of a customer", true, [signup], unnamed],
  ["a customer", true, [unnamed], signup],
  ["a refund", true, [named, tie], refunded],
  ["an event that joins two payments, by the first erasure", false, [named, buy], tie],
  ["an event that joins two payments", true, [named, buy], tie],
] as const)(
  "an event whose person is erased during its processing leaves nothing that names the person, at whichever trip: %s",
  async (_, isSecond, before, event) => {
    for (let trip = 1, isReached = true; isReached; trip++) {
      const hook = { late: async () => {} };
      const w = await paymentsWorld({ DB: hookedD1(env.DB, () => hook.late()) });
      const key = w.app.keys.sk_live;
      const erase = async (distinctId: string) => {
        const answer = await makeClient(w.clock)("POST", "/api/v1/erase-person", { key, body: { distinctId } });
        expect(answer.body).toMatchObject({ status: "completed" });
      };
      if (isSecond) await erase("somebody else");
      for (const [index, one] of before.entries()) await w.deliver(one(w.nowS + index));
      let trips = 0;
      hook.late = async () => {
        trips++;
        if (trips === trip) await erase(user);
      };
      const { status } = await w.send(event(w.nowS + 9));
      hook.late = async () => {};
      isReached = trips >= trip;
      if (!isReached) break;
      const { results } = await env.DB.prepare("SELECT * FROM stripe_customers WHERE environment_id = ?")
        .bind(w.app.environments.live.id)
        .all();
      const text = JSON.stringify([await w.stored(), results]);
      // An unmatched invoice without a user keeps Stripe's id of its customer.
      const hasNoPerson = (await w.payments()).some(({ reason }: { reason: string }) => reason === "no_user");
      const names = [user, "cus_ada"].filter((name) => text.includes(name));
      expect([trip, status, ...names]).toEqual([trip, 200, ...(hasNoPerson ? ["cus_ada"] : [])]);
    }
  },
  60_000,
);
