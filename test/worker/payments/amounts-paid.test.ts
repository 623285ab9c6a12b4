import { afterAll, describe, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { PRICES } from "../../support/payment-story.ts";
import { paymentsWorld, SIGNING_SECRET } from "../../support/payments.ts";
import { plansShop, prorated } from "../../support/plans-shop.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";
import { BEFORE, TODAY } from "../../support/stripe-versions.ts";

afterAll(expectLedgerInvariants);

describe("a wallet", () => {
  it("is topped up by the price of the goods after discounts, not by the subtotal", async () => {
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
});

describe.each([TODAY, BEFORE])("an invoice of API version %s", (version) => {
  it("grants a trial once for each user and price if the setting allows it, and is ignored if it has nothing else", async () => {
    const { w, paid, basic, pro, tokens } = await plansShop(version, { basic: { trial: true } });
    expect(await w.deliver(paid("in_0", [pro("il_0", 0)]))).toBe("ignored");
    const free = { ...basic("il_1"), discount: 1000 };
    expect(await w.deliver(paid("in_1", [free]))).toBe("granted");
    expect(await tokens()).toEqual([1000]);
    const stored = await w.stored();
    expect(await w.deliver(paid("in_2", [basic("il_2", 0)]))).toBe("ignored");
    expect(await w.stored()).toEqual(stored);
    expect(await w.deliver(paid("in_3", [basic("il_3", 0), pro("il_4")]))).toBe("granted");
    expect(await tokens()).toEqual([1000, 4000]);
    expect(await w.deliver(paid("in_4", [basic("il_5", 0)], { subscription: { user: "v" } }))).toBe("granted");
    expect(await tokens("v")).toEqual([1000]);
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

describe("an event of Stripe Connect", () => {
  it("is ignored, and stores nothing", async () => {
    const w = await paymentsWorld();
    const about = { client_reference_id: "u", metadata: { pack: "two" }, payment_intent: "pi_1" };
    const event = eventOf("checkout.session.completed", w.nowS, session("cs_1", about));
    const before = await w.stored();
    expect(await w.deliver({ ...event, account: "acct_1" })).toBe("ignored");
    expect(await w.stored()).toEqual(before);
    expect(await w.deliver(event)).toBe("granted");
  });
});

describe("the setting", () => {
  it("keeps a price's trial and full amount, and refuses an invalid amount", async () => {
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
});
