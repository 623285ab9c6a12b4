import { env } from "cloudflare:workers";
import { afterAll, expect, it, vi } from "vitest";
import { FAULTS, faultyD1 } from "../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { credit, plansShop, prorated } from "../../support/plans-shop.ts";
import { expectError } from "../../support/rejections.ts";
import { charge, eventOf, refund, session, type TestEvent } from "../../support/stripe-events.ts";
import { invoicePayment } from "../../support/stripe-invoices.ts";
import { BEFORE, TODAY } from "../../support/stripe-versions.ts";

afterAll(expectLedgerInvariants);

/** An event with further fields of its object. */
const withFields = (event: TestEvent, fields: object): TestEvent => {
  const { object } = event.data as { object: object };
  return { ...event, data: { object: { ...object, ...fields } } };
};

type Shop = Awaited<ReturnType<typeof plansShop>>;
const paymentOf = async ({ w }: Shop, id: string) =>
  (await w.payments("&limit=100")).find(({ names }: { names: string[] }) => names.includes(id));

it("the carry of a customer changes exactly when many of its invoices come at once, each repeated", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic, pro } = shop;
  await w.deliver(paid("in_0", [pro("il_0")]));
  const returned = Array.from({ length: 6 }, (_, n) => paid(`in_r${n}`, [credit(basic("il_1", 250))]));
  await Promise.all([...returned, ...returned].map((event) => w.deliver(event)));
  expect(await shop.carry()).toBe(1500);
  const bought = Array.from({ length: 4 }, (_, n) => paid(`in_b${n}`, [basic("il_1")], { paid: 0 }));
  await Promise.all([...bought, ...bought].map((event) => w.send(event)));
  // $40 were bought, of which the carry took $15: 2,500 tokens of Basic.
  expect([await shop.carry(), await shop.total()]).toEqual([0, 6500]);
});

it("the carry of a customer belongs to the customer and the currency, not to the user whom an invoice names", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic } = shop;
  await w.deliver(paid("in_1", [credit(basic("il_1", 600))], { customer: "cus_stranger" }));
  expect(await w.deliver(paid("in_2", [basic("il_2")]))).toBe("granted");
  expect(await shop.tokens()).toEqual([1000]);
  const other = { subscription: { user: "v" }, customer: "cus_stranger", paid: 400 };
  expect(await w.deliver(paid("in_3", [basic("il_3")], other))).toBe("granted");
  expect(await shop.tokens("v")).toEqual([400]);
});

it("the carry of a customer counts the negative lines of a price that was granted before it left the setting", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic, pro, prices } = shop;
  await w.deliver(paid("in_1", [basic("il_1")]));
  await w.set({ prices: prices.filter(({ price }) => price !== "price_basic") });
  const foreign = paid("in_2", [credit(basic("il_2", 500))], { customer: "cus_2" });
  expect(await w.deliver(foreign)).toBe("ignored");
  expect(await w.deliver(paid("in_3", [credit(basic("il_3", 500)), prorated(pro("il_4", 1500))]))).toBe("granted");
  expect(await shop.tokens()).toEqual([1000, 1333.333]);
});

it("the carry of a customer tells as `no_pack` an invoice with a line whose price was granted before it left the setting, and grants it once the price is back", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic, pro, prices } = shop;
  await w.deliver(paid("in_1", [basic("il_1")]));
  await w.set({ prices: prices.filter(({ price }) => price !== "price_basic") });
  const renewed = paid("in_2", [basic("il_2")]);
  const mixed = paid("in_3", [credit(basic("il_3", 500)), basic("il_4"), pro("il_5")]);
  for (const event of [renewed, mixed]) expect(await w.deliver(event)).toBe("unmatched");
  expect((await w.events("&outcome=unmatched"))[0]).toMatchObject({
    reason: "no_pack",
    hint: expect.stringContaining("resend"),
  });
  // Another customer never had the price, so it is another product's.
  expect(await w.deliver(paid("in_4", [basic("il_6")], { customer: "cus_2" }))).toBe("ignored");
  await w.set({ prices });
  for (const event of [renewed, mixed]) expect(await w.deliver(event)).toBe("granted");
  expect(await shop.tokens()).toEqual([875, 1000, 1000, 3500]);
});

it("the carry of a customer is used up by an invoice of a price that has left the setting", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic, pro, prices } = shop;
  await w.deliver(paid("in_1", [basic("il_1")]));
  await w.deliver(paid("in_2", [credit(basic("il_2", 700))]));
  await w.set({ prices: prices.filter(({ price }) => price !== "price_basic") });
  expect(await w.deliver(paid("in_3", [basic("il_3", 600)], { paid: 0 }))).toBe("ignored");
  expect(await paymentOf(shop, "in_3")).toMatchObject({ status: "granted", reason: "covered_by_credit" });
  expect(await shop.carry()).toBe(100);
  // $4 are left to pay. Once it is settled, the carry is used up.
  expect(await w.deliver(paid("in_4", [basic("il_4", 500)], { paid: 400 }))).toBe("unmatched");
  expect((await w.settle("in_4", { userId: "u", packId: "Basic" })).status).toBe(200);
  expect(await shop.carry()).toBe(0);
  expect(await w.deliver(paid("in_5", [pro("il_5")]))).toBe("granted");
  expect(await shop.tokens()).toEqual([1000, 1000, 4000]);
});

it("the carry of a customer does not change while the full amount is unknown, and changes once when the invoice is settled by hand", async () => {
  const shop = await plansShop(TODAY, { pro: { amount: undefined } });
  const { w, paid, basic, pro } = shop;
  await w.deliver(paid("in_0", [credit(basic("il_0", 300))]));
  const switched = paid("in_1", [credit(basic("il_1", 500)), prorated(pro("il_2", 1500))], { paid: 700 });
  expect(await w.deliver(switched)).toBe("unmatched");
  expect([await shop.carry(), (await paymentOf(shop, "in_1")).reason]).toEqual([300, "proration"]);
  for (let time = 0; time < 2; time++) {
    expect((await w.settle("in_1", { userId: "u", packId: "Basic", quantity: 2 })).status).toBe(200);
  }
  expect([await shop.carry(), await shop.tokens()]).toEqual([0, [2000]]);
  expect((await paymentOf(shop, "in_1")).invoice).toEqual({
    bought: 1500,
    returned: 500,
    carried: 300,
    share: 7 / 15,
  });
  expect(await w.deliver(switched)).toBe("ignored");
});

it("the carry of a customer is not changed again by a covered invoice that is settled by hand", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic } = shop;
  await w.deliver(paid("in_0", [credit(basic("il_0", 3000))]));
  expect(await w.deliver(paid("in_1", [basic("il_1")], { paid: 0, subscription: {} }))).toBe("ignored");
  expect((await w.settle("in_1", { userId: "u", packId: "Basic" })).status).toBe(200);
  expect([await shop.carry(), await shop.tokens()]).toEqual([2000, [1000]]);
  expect(await paymentOf(shop, "in_1")).toMatchObject({ status: "granted", reason: null, settledBy: "admin" });
});

it("the carry of a customer gets the whole total of an invoice below 0 with missing lines, and takes of another when it is settled", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic } = shop;
  const missing = { hasMore: true };
  expect(await w.deliver(paid("in_1", [basic("il_1")], { ...missing, paid: 0, total: -700 }))).toBe("remembered");
  expect(await shop.carry()).toBe(700);
  expect(await w.deliver(paid("in_2", [basic("il_2")], { ...missing, paid: 300, total: 1000 }))).toBe("unmatched");
  expect([await shop.carry(), (await paymentOf(shop, "in_2")).reason]).toEqual([700, "lines_missing"]);
  await w.settle("in_2", { userId: "u", packId: "Basic" });
  expect(await shop.carry()).toBe(0);
  expect((await paymentOf(shop, "in_2")).invoice).toEqual({ bought: 1000, returned: 0, carried: 700, share: 0.3 });
});

it("the carry of a customer is told as `carry` when it took money that Stripe's own balance did not pay, after ten minutes", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic } = shop;
  await w.deliver(paid("in_0", [credit(basic("il_0", 1600))]));
  expect(await w.deliver(paid("in_1", [basic("il_1")]))).toBe("unmatched");
  expect(await w.deliver(paid("in_2", [basic("il_2")], { paid: 900 }))).toBe("granted");
  expect(await paymentOf(shop, "in_1")).toMatchObject({ status: "unmatched", reason: "carry", grants: [] });
  expect(await paymentOf(shop, "in_2")).toMatchObject({ status: "granted", reason: "carry" });
  expect([await shop.carry(), await shop.tokens()]).toEqual([0, [400]]);
  const tell = await env.DB.prepare("SELECT count(*) AS n FROM payments WHERE environment_id = ? AND notify_at_ms > 0")
    .bind(w.app.environments.live.id)
    .first<{ n: number }>();
  expect(tell?.n).toBe(2);
});

it("the carry of a customer takes no part of an invoice whose payment a session granted", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic } = shop;
  await w.deliver(paid("in_0", [credit(basic("il_0", 600))]));
  const fields = { client_reference_id: "u", metadata: { pack: "Basic" }, payment_intent: "pi_1", invoice: "in_1" };
  expect(await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)))).toBe("granted");
  expect(await w.deliver(paid("in_1", [basic("il_1")]))).toBe("remembered");
  expect([await shop.carry(), await shop.tokens()]).toEqual([600, [1000]]);
});

it("the carry of a customer grants the invoices that waited for the customer's user in the order in which Stripe created them", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic, pro } = shop;
  const about = { customer: "cus_9", subscription: {} };
  const created = (event: TestEvent, seconds: number) => withFields(event, { created: w.nowS + seconds });
  const late = created(paid("in_2", [prorated(pro("il_2", 1500))], { ...about, paid: 1000 }), 2);
  const early = created(paid("in_1", [credit(basic("il_0", 1500)), basic("il_1")], { ...about, paid: 0 }), 1);
  expect(await w.deliver(late)).toBe("unmatched");
  expect(await w.deliver(early)).toBe("ignored");
  const signup = { mode: "subscription", customer: "cus_9", client_reference_id: "u" };
  expect(await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", signup)))).toBe("granted");
  expect(await shop.tokens()).toEqual([1333.333]);
});

it("the administrator's carry is set, told in the audit, and used by the next invoice", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic } = shop;
  await w.deliver(paid("in_1", [basic("il_1")]));
  const carry = { customer: "cus_1", currency: "usd", amount: 400 };
  for (let time = 0; time < 2; time++) {
    const { status, body } = await w.setCarry(carry);
    expect([status, body]).toEqual([200, carry]);
  }
  expect(await w.carries("u")).toEqual([carry]);
  const { body } = await w.admin("GET", `${w.path}/audit`, { key: env.ADMIN_TOKEN });
  const entries = body.entries.filter(({ action }: { action: string }) => action === "payment.carry_set");
  expect(entries).toMatchObject([{ details: { mode: "live", currency: "usd", amount: 400 } }]);
  expect(JSON.stringify(entries)).not.toContain("cus_1");
  expect(await w.deliver(paid("in_2", [basic("il_2")], { paid: 600 }))).toBe("granted");
  expect([await shop.carry(), await shop.tokens()]).toEqual([0, [600, 1000]]);
});

it("the administrator's carry rejects what is no carry or no customer of the mode, and writes nothing", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic } = shop;
  await w.deliver(paid("in_1", [basic("il_1")]));
  const before = await w.stored();
  const right = { customer: "cus_1", currency: "usd", amount: 1 };
  for (const amount of [-1, 0.5, 2 ** 53 + 2, "1", null]) {
    expectError(await w.setCarry({ ...right, amount }), "invalid_request", "amount");
  }
  // The nearest double of each would be a carry.
  for (const digits of ["9007199254740993", "9007199254740991.5", "0.99999999999999999999", "1.0000000000000000001"]) {
    const body = JSON.stringify({ mode: "live", ...right, amount: 0 }).replace('"amount":0', `"amount":${digits}`);
    const refused = await w.admin("POST", `${w.path}/payments/carry`, { key: env.ADMIN_TOKEN, body });
    expectError(refused, "invalid_request", "amount");
    expect(refused.body.error.message, digits).toContain("must be a whole number from 0 to 9007199254740992");
  }
  expectError(await w.setCarry({ ...right, currency: "USD" }), "invalid_request", "currency");
  expectError(await w.setCarry({ ...right, customer: "cus_unknown" }), "not_found", "customer");
  expectError(await w.setCarry({ ...right, mode: "test" }), "not_found", "customer");
  expect(await w.stored()).toEqual(before);
  expect((await w.setCarry({ ...right, amount: 2 ** 53 })).status).toBe(200);
});

it("a refund of an invoice takes the share of what was granted, which the carry lowered with its tax", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic, tokens } = shop;
  await w.deliver(paid("in_0", [credit(basic("il_0", 600))]));
  const taxed = [{ ...basic("il_1"), tax: 190 }];
  const event = paid("in_1", taxed, { paymentIntent: "pi_1", paid: 476, total: 1190 });
  expect(await w.deliver(event)).toBe("granted");
  await w.deliver(eventOf("invoice_payment.paid", w.nowS, invoicePayment("inpay_1", "in_1", "pi_1", 476)));
  expect(await tokens()).toEqual([400]);
  // The carry took $6 with its tax of 19 %, so that the invoice's $11.90 less $7.14 is what was granted: $4.76.
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 9, charge("ch_1", "pi_1", 238, 476)))).toBe("taken");
  expect(await tokens()).toEqual([200]);
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 10, charge("ch_1", "pi_1", 476, 476)))).toBe("taken");
  expect([await tokens(), await shop.carry()]).toEqual([[0], 0]);
  const failed = refund("re_1", "ch_1", "pi_1", 476, "failed");
  expect(await w.deliver(eventOf("refund.failed", w.nowS + 11, failed))).toBe("restored");
  expect([await tokens(), await shop.carry()]).toEqual([[400], 0]);
});

it("an erasure of a customer's user keeps the carry and the trial of the customer, but not its name", async () => {
  const shop = await plansShop(TODAY, { basic: { trial: true } });
  const { w, paid, basic, pro } = shop;
  await w.deliver(paid("in_0", [basic("il_0", 0), pro("il_1")]));
  await w.deliver(paid("in_1", [credit(pro("il_2", 600))]));
  expect((await w.post("erase-person", { distinctId: "u" })).body).toMatchObject({ status: "completed" });
  expect(JSON.stringify([await w.stored(), await w.log()])).not.toContain("cus_1");
  const v = { subscription: { user: "v" } };
  expect(await w.deliver(paid("in_2", [basic("il_3", 0), basic("il_4")], { ...v, paid: 400 }))).toBe("granted");
  expect(await shop.tokens("v")).toEqual([400]);
  const named = paid("in_3", [credit(basic("il_5", 250))]);
  for (let time = 0; time < 2; time++) await w.deliver(named);
  expect(JSON.stringify([await w.stored(), await w.log()])).not.toContain("cus_1");
  const [first] = await w.carries("v");
  expect(first).toMatchObject({ currency: "usd", amount: 250, customer: expect.stringMatching(/^#/) });
  expect((await w.setCarry({ customer: "cus_1", currency: "usd", amount: 100 })).status).toBe(200);
  expect(await shop.carry("v")).toBe(100);
});

it("a batch that fails the same way again and again is logged, shown as unmatched and told, and is not delivered forever", async () => {
  const shop = await plansShop(TODAY);
  const { w, paid, basic } = shop;
  const log = vi.spyOn(console, "error").mockReturnValue();
  const environmentId = w.app.environments.live.id;
  // A rule of the database that no other write breaks: every grant of this environment fails.
  await env.DB.prepare(
    `CREATE TRIGGER broken BEFORE INSERT ON payment_grants WHEN new.environment_id = ${environmentId}
       BEGIN SELECT RAISE(ABORT, 'credit_balances_id'); END`,
  ).run();
  const event = paid("in_1", [basic("il_1")]);
  expect(await w.deliver(event)).toBe("unmatched");
  expect(log.mock.calls.flat().join()).toContain("payment_not_granted");
  expect(await paymentOf(shop, "in_1")).toMatchObject({ status: "unmatched", reason: "fault", grants: [] });
  await env.DB.prepare("DROP TRIGGER broken").run();
  expect(await w.deliver(event)).toBe("granted");
  log.mockRestore();
});

it("an invoice with a proration line of less than a step beside a full line is granted", async () => {
  const shop = await plansShop(BEFORE);
  const { w, paid, basic, pro } = shop;
  const tiny = { ...prorated(basic("il_1", 1)), unitAmount: 99_999_999 };
  expect(await w.deliver(paid("in_1", [tiny, pro("il_2")]))).toBe("granted");
  expect(await shop.tokens()).toEqual([4000]);
});

it("a proration line grants at most its quantity, by the line's own full price first", async () => {
  const shop = await plansShop(BEFORE);
  const { w, paid, basic } = shop;
  const own = { ...prorated(basic("il_1", 500)), unitAmount: 2000 };
  expect(await w.deliver(paid("in_1", [own, { ...prorated(basic("il_2", 900)), unitAmount: 300 }]))).toBe("granted");
  expect(await shop.tokens()).toEqual([250, 1000]);
});

it("an older invoice of no subscription grants to its own user, although it has details of a subscription", async () => {
  const shop = await plansShop(BEFORE);
  const { w, paid, basic } = shop;
  const event = paid("in_1", [basic("il_1")], {
    subscription: undefined as never,
    metadata: { user: "v" },
    paymentIntent: "pi_1",
  });
  expect(await w.deliver(withFields(event, { subscription_details: { metadata: null } }))).toBe("granted");
  expect(await shop.tokens("v")).toEqual([1000]);
});

it("a dispute's remainder is not rounded to whole cents", async () => {
  const shop = await plansShop(BEFORE);
  const { w, paid, basic } = shop;
  await w.deliver(paid("in_1", [basic("il_1")], { paymentIntent: "pi_1" }));
  const moved = [-3, 2].map((amount) => ({ amount, currency: "eur" }));
  const about = { id: "dp_1", object: "dispute", charge: "ch_1", payment_intent: "pi_1", amount: 100, currency: "usd" };
  const reinstated = { ...about, status: "needs_response", balance_transactions: moved };
  expect(await w.deliver(eventOf("charge.dispute.funds_reinstated", w.nowS + 9, reinstated))).toBe("taken");
  // A third of $1 of $10: 33.333 of 1,000 tokens, rounded down to a step.
  expect(await shop.tokens()).toEqual([966.667]);
});

it.each(FAULTS)(
  'a plan switch during which a trip to the database fails ends in the same state when Stripe sends the event again (fault "%s", at each trip)',
  { timeout: 120_000 },
  async (fault) => {
    vi.spyOn(console, "warn").mockReturnValue();
    vi.spyOn(scheduler, "wait").mockResolvedValue();
    const faulty = faultyD1(env.DB);
    for (let at = 1, wasHit = true; wasHit; at++) {
      faulty.plan(null);
      const shop = await plansShop(BEFORE, {}, { DB: faulty.d1 });
      const { w, paid, basic, pro } = shop;
      await w.deliver(paid("in_1", [credit(basic("il_1", 300))]));
      const switched = paid("in_2", [credit(basic("il_2", 500)), prorated(pro("il_3", 1500))], { paid: 700 });
      faulty.plan({ fault, at, persists: at % 2 === 0 });
      const answer = await w.send(switched);
      wasHit = faulty.trips() >= at;
      faulty.plan(null);
      if (answer.status !== 200) expect(answer.status).toBe(503);
      await w.deliver(switched);
      expect([await shop.tokens(), await shop.carry()], `${at}`).toEqual([[933.333], 0]);
    }
    vi.restoreAllMocks();
  },
);
