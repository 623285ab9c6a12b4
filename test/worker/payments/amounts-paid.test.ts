import { afterAll, describe, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { PRICES } from "../../support/payment-story.ts";
import { paymentsWorld, SIGNING_SECRET } from "../../support/payments.ts";
import { plansShop, prorated } from "../../support/plans-shop.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";
import { BEFORE, TODAY } from "../../support/stripe-versions.ts";

afterAll(expectLedgerInvariants);

it("a wallet is topped up by the price of the goods after discounts, not by the subtotal", async () => {
  const w = await paymentsWorld();
  const top = (id: string, discount: number) => {
    const details = { amount_discount: discount, amount_shipping: 70, amount_tax: 190 };
    const about = { client_reference_id: "u", metadata: { pack: "wallet" }, payment_intent: `pi_${id}` };
    const paid = { amount_total: 1260 - discount, total_details: details };
    return eventOf("checkout.session.completed", w.nowS, session(`cs_${id}`, { ...about, ...paid }));
  };
  expect(await w.deliver(top("1", 400))).toBe("granted");
  expect(await w.balances("u")).toEqual([["cents", 600, "active"]]);
  expect(await w.deliver(top("2", 1000))).toBe("unmatched");
  expect((await w.payments("&status=unmatched"))[0]).toMatchObject({ reason: "quantity" });
});

describe.each([TODAY, BEFORE])("an invoice of API version %s", (version) => {
  it("grants a trial of one quantity if the setting allows it, once for each user and once for each customer", async () => {
    const { w, paid, basic, pro, tokens } = await plansShop(version, { basic: { trial: true } });
    expect(await w.deliver(paid("in_0", [pro("il_0", 0)]))).toBe("ignored");
    expect(await w.deliver(paid("in_1", [{ ...basic("il_1", 0), quantity: 50 }]))).toBe("granted");
    expect(await tokens()).toEqual([1000]);
    const stored = await w.stored();
    expect(await w.deliver(paid("in_2", [basic("il_2", 0)]))).toBe("ignored");
    expect(await w.stored()).toEqual(stored);
    expect((await w.events("&outcome=ignored"))[0]).toMatchObject({ reason: "trial_over" });
    expect(await w.deliver(paid("in_3", [basic("il_3", 0), pro("il_4")]))).toBe("granted");
    expect(await tokens()).toEqual([1000, 4000]);
    const v = { subscription: { user: "v" } };
    expect(await w.deliver(paid("in_4", [basic("il_5", 0)], v))).toBe("ignored");
    expect(await w.deliver(paid("in_5", [basic("il_6", 0)], { customer: "cus_2" }))).toBe("ignored");
    expect(await w.deliver(paid("in_6", [basic("il_7", 0)], { ...v, customer: "cus_2" }))).toBe("granted");
    expect(await tokens("v")).toEqual([1000]);
  });

  it("grants a trial once, whichever of two racing users of a customer comes first", async () => {
    const { w, paid, basic, tokens } = await plansShop(version, { basic: { trial: true } });
    const events = ["u", "v"].map((user) => paid(`in_${user}`, [basic("il_1", 0)], { subscription: { user } }));
    const outcomes = await Promise.all(events.map((event) => w.deliver(event)));
    expect(outcomes.toSorted()).toEqual(["granted", "ignored"]);
    expect([...(await tokens("u")), ...(await tokens("v"))]).toEqual([1000]);
  });

  it("grants what a coupon paid whole, but not again before the granted period ends", async () => {
    const { w, paid, basic, pro, tokens, carry } = await plansShop(version);
    const month = (n: number) => ({ start: w.nowS + n * 2_592_000, end: w.nowS + (n + 1) * 2_592_000 });
    const free = (id: string, n: number) => ({ ...basic(id), quantity: 2, discount: 1000, period: month(n) });
    expect(await w.deliver(paid("in_1", [free("il_1", 0)]))).toBe("granted");
    expect(await tokens()).toEqual([2000]);
    const again = { ...pro("il_2"), discount: 3000, period: { ...month(0), start: w.nowS + 9 } };
    expect(await w.deliver(paid("in_2", [again]))).toBe("ignored");
    expect((await w.events("&outcome=ignored"))[0]).toMatchObject({ reason: "coupon_over" });
    expect(await w.deliver(paid("in_3", [again, basic("il_3")]))).toBe("granted");
    expect(await w.deliver(paid("in_4", [free("il_4", 1)]))).toBe("granted");
    expect(await tokens()).toEqual([1000, 2000, 2000]);
    expect(await carry()).toBe(0);
  });

  it("is taken back by the share of its lines' price, whatever the customer's balance at Stripe paid", async () => {
    const { w, paid, basic, tokens } = await plansShop(version);
    const about = { paymentIntent: "pi_1", paid: 400, total: 1000 };
    await w.deliver(paid("in_1", [basic("il_1")], about));
    const tie = { id: "inpay_1", object: "invoice_payment", invoice: "in_1", amount_paid: 400, currency: "usd" };
    const payment = { payment_intent: "pi_1", type: "payment_intent" };
    if (version === TODAY) await w.deliver(eventOf("invoice_payment.paid", w.nowS, { ...tie, payment }));
    expect(await w.deliver(eventOf("charge.refunded", w.nowS + 9, charge("ch_1", "pi_1", 400, 400)))).toBe("taken");
    expect(await tokens()).toEqual([600]);
  });

  it("gives a proration line whose period is over the latest end among its lines", async () => {
    const { w, paid, basic, pro } = await plansShop(version, {
      basic: { expires: "period" },
      pro: { expires: "period" },
    });
    const over = { start: w.nowS - 7_200, end: w.nowS - 3_600 };
    const next = { start: w.nowS, end: w.nowS + 3_600 };
    const late = { ...prorated(basic("il_1", 500)), period: over };
    expect(await w.deliver(paid("in_1", [late]))).toBe("unmatched");
    expect((await w.payments())[0]).toMatchObject({ reason: "period_over" });
    expect(await w.deliver(paid("in_2", [late, { ...pro("il_2"), period: next }]))).toBe("granted");
    const { credits } = (await w.call("GET", "/api/v1/credits?userId=u", { key: w.app.keys.sk_live })).body;
    const end = new Date(next.end * 1_000).toISOString();
    expect(credits.map((credit: { expiresAt: string }) => credit.expiresAt)).toEqual([end, end]);
  });
});

it("an event of Stripe Connect is ignored, and stores nothing", async () => {
  const w = await paymentsWorld();
  const about = { client_reference_id: "u", metadata: { pack: "two" }, payment_intent: "pi_1" };
  const event = eventOf("checkout.session.completed", w.nowS, session("cs_1", about));
  const before = await w.stored();
  expect(await w.deliver({ ...event, account: "acct_1" })).toBe("ignored");
  expect(await w.stored()).toEqual(before);
  expect(await w.deliver(event)).toBe("granted");
});

it("the setting keeps a price's trial and full amount, and rejects an invalid amount", async () => {
  const w = await paymentsWorld();
  const price = { price: PRICES.items, packId: w.packs.items, expires: "pack" };
  const set = (more: object) => w.set({ signingSecrets: [SIGNING_SECRET], prices: [{ ...price, ...more }] });
  const { status, body } = await set({ trial: true, amount: 1000 });
  expect(status).toBe(200);
  expect(body.setting.prices).toEqual([{ ...price, trial: true, amount: 1000 }]);
  for (const more of [{ amount: 0 }, { amount: 9.5 }, { amount: "10" }, { trial: "yes" }]) {
    const refused = await set(more);
    expect([refused.status, refused.body.error?.code]).toEqual([400, "invalid_request"]);
  }
});
