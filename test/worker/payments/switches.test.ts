import { afterAll, describe, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { credit, plansShop, prorated } from "../../support/plans-shop.ts";
import { charge, eventOf, refund } from "../../support/stripe-events.ts";
import { invoicePayment } from "../../support/stripe-invoices.ts";
import { BEFORE, TODAY } from "../../support/stripe-versions.ts";

afterAll(expectLedgerInvariants);

describe.each([TODAY, BEFORE])("a switch of plans, by API version %s", (version) => {
  it("takes the credited share, and lets the new plan pay for the spent part", async () => {
    const { w, paid, spend, basic, pro, tokens, debts } = await plansShop(version);
    expect(await w.deliver(paid("in_1", [basic("il_1")]))).toBe("granted");
    await spend("e1", 900);
    const switched = paid("in_2", [credit(basic("il_2", 500), "in_1", ["il_1"]), prorated(pro("il_3", 1500))]);
    expect(await w.deliver(switched)).toBe("granted");
    expect(await tokens()).toEqual([0, 1466.667]);
    expect(await debts()).toEqual([]);
    expect((await w.history("u")).map(({ delta }: { delta: number }) => delta)).toEqual([
      -533.333, -100, 2000, -900, 1000,
    ]);
    const stored = await w.stored();
    expect(await w.deliver(switched)).toBe("ignored");
    expect(await w.stored()).toEqual(stored);
  });

  it("grants by the setting's full amount, else by a whole line of the invoice, else by the line's own price", async () => {
    const { w, paid, basic, pro, tokens, prices } = await plansShop(version);
    const lines = [prorated({ ...basic("il_1", 500), unitAmount: 700 })];
    expect(await w.deliver(paid("in_1", lines))).toBe("granted");
    expect(await tokens()).toEqual([500]);
    await w.set({ prices: prices.map(({ amount: _, ...price }) => price) });
    const beside = [prorated(pro("il_1", 1000)), { ...pro("il_2", 8000), quantity: 2, discount: 3000 }];
    expect(await w.deliver(paid("in_2", beside))).toBe("granted");
    expect(await tokens()).toEqual([500, 1000, 8000]);
    const alone = paid("in_3", [prorated({ ...basic("il_1", 250), unitAmount: 1000 })]);
    if (version === BEFORE) {
      expect(await w.deliver(alone)).toBe("granted");
      expect(await tokens()).toEqual([250, 500, 1000, 8000]);
    } else {
      expect(await w.deliver(alone)).toBe("unmatched");
      expect((await w.payments("&status=unmatched"))[0]).toMatchObject({ reason: "proration", userId: "u" });
    }
  });

  it("stores a credit that comes before its grant, and takes it when the grant comes", async () => {
    const { w, paid, basic, pro, tokens, debts } = await plansShop(version);
    const switched = paid("in_2", [credit(basic("il_2", 400), "in_1", ["il_1"]), prorated(pro("il_3", 1500))]);
    expect(await w.deliver(switched)).toBe("granted");
    expect(await tokens()).toEqual([2000]);
    expect(await w.deliver(paid("in_1", [basic("il_1")]))).toBe("granted");
    expect(await tokens()).toEqual([600, 2000]);
    expect(await debts()).toEqual([]);
  });

  it("remembers an unpaid debt, which the next line of the customer or user pays", async () => {
    const { w, paid, spend, basic, tokens, debts } = await plansShop(version);
    await w.deliver(paid("in_1", [basic("il_1")]));
    await spend("e1", 1000);
    expect(await w.deliver(paid("in_2", [credit(basic("il_2", 1000), "in_1", ["il_1"])]))).toBe("remembered");
    expect(await debts()).toEqual([1000]);
    const other = { subscription: { user: "v" } };
    expect(await w.deliver(paid("in_3", [basic("il_3", 600)], { ...other, customer: "cus_other" }))).toBe("granted");
    expect(await tokens("v")).toEqual([1000]);
    expect(await w.deliver(paid("in_4", [basic("il_4", 600)], other))).toBe("granted");
    expect(await tokens("v")).toEqual([0, 1000]);
    expect(await w.deliver(paid("in_5", [basic("il_5")], { customer: "cus_other" }))).toBe("granted");
    expect(await tokens()).toEqual([0, 600]);
    expect(await debts()).toEqual([]);
  });

  it("makes the credited amount a debt if everything is also refunded, and gives it back if the refund fails", async () => {
    const { w, paid, basic, tokens, debts } = await plansShop(version);
    expect(await w.deliver(paid("in_1", [basic("il_1")], { paymentIntent: "pi_1" }))).toBe("granted");
    const tie = eventOf("invoice_payment.paid", w.nowS, invoicePayment("inpay_1", "in_1", "pi_1"));
    if (version === TODAY) await w.deliver(tie);
    expect(await w.deliver(paid("in_2", [credit(basic("il_2", 500), "in_1", ["il_1"])]))).toBe("taken");
    expect(await tokens()).toEqual([500]);
    expect(await w.deliver(eventOf("charge.refunded", w.nowS + 10, charge("ch_1", "pi_1", 1000)))).toBe("taken");
    expect(await tokens()).toEqual([0]);
    expect(await debts()).toEqual([500]);
    expect(await w.deliver(paid("in_3", [basic("il_3")]))).toBe("granted");
    expect(await tokens()).toEqual([0, 500]);
    expect(await debts()).toEqual([]);
    const failed = refund("re_1", "ch_1", "pi_1", 1000, "failed");
    expect(await w.deliver(eventOf("refund.failed", w.nowS + 20, failed))).toBe("restored");
    expect(await tokens()).toEqual([500, 1000]);
    expect(await debts()).toEqual([]);
  });

  it("counts credits that the operator took as not spent", async () => {
    const { w, paid, spend, basic, tokens, debts } = await plansShop(version);
    await w.deliver(paid("in_1", [basic("il_1")]));
    await spend("e1", 300);
    const [{ balanceId }] = (await w.call("GET", "/api/v1/credits?userId=u", { key: w.app.keys.sk_live })).body.credits;
    await w.post("credits/revoke", { balanceId });
    expect(await w.deliver(paid("in_2", [credit(basic("il_2", 1000), "in_1", ["il_1"])]))).toBe("taken");
    expect(await tokens()).toEqual([0]);
    expect(await debts()).toEqual([300]);
  });

  it("credits the newest granted line of its price and subscription if it names none, and only once", async () => {
    const { w, paid, basic, tokens } = await plansShop(version);
    const unnamed = { ...basic("il_9", -500), proration: true };
    expect(await w.deliver(paid("in_0", [{ ...unnamed, id: "il_0" }]))).toBe("ignored");
    await w.deliver(paid("in_1", [basic("il_1")]));
    await w.deliver(paid("in_2", [basic("il_2")]));
    await w.deliver(paid("in_x", [basic("il_x")], { subscriptionId: "sub_2", subscription: { user: "v" } }));
    const cancelled = paid("in_9", [unnamed]);
    expect(await w.deliver(cancelled)).toBe("taken");
    expect(await tokens()).toEqual([500, 1000]);
    await w.deliver(paid("in_3", [basic("il_3")]));
    expect(await w.deliver(cancelled)).toBe("ignored");
    expect(await tokens()).toEqual([500, 1000, 1000]);
  });

  it("takes the credited share from another user who had the grant", async () => {
    const { w, paid, spend, basic, pro, tokens, debts } = await plansShop(version);
    await w.deliver(paid("in_1", [basic("il_1")], { subscription: { user: "v" } }));
    await spend("e1", 800, "v");
    const switched = paid("in_2", [credit(basic("il_2", 500), "in_1", ["il_1"]), prorated(pro("il_3", 1500))]);
    expect(await w.deliver(switched)).toBe("granted");
    expect(await tokens("v")).toEqual([0]);
    expect(await tokens()).toEqual([1600]);
    expect(await debts()).toEqual([]);
  });
});

describe("a customer who switches plans to gain credits", () => {
  it("has no more credits after three switches between yearly and monthly than were paid for", async () => {
    const shop = await plansShop(TODAY, { basic: { amount: 1000 }, pro: { amount: 12_000 } });
    const { w, paid, basic, pro, total } = shop;
    // A year costs $120 for 4,000 tokens, a month $10 for 1,000.
    await w.deliver(paid("in_0", [pro("il_0", 12_000)]));
    let [of, line] = ["in_0", "il_0"];
    for (let turn = 1; turn <= 3; turn++) {
      const monthly = [credit(pro("il_a", 12_000), of, [line]), prorated(basic("il_b", 1000))];
      await w.deliver(paid(`in_${turn}m`, monthly));
      const yearly = [credit(basic("il_a", 1000), `in_${turn}m`, ["il_b"]), prorated(pro("il_b", 12_000))];
      await w.deliver(paid(`in_${turn}y`, yearly));
      [of, line] = [`in_${turn}y`, "il_b"];
    }
    expect(await total()).toBe(4000);
    expect(await shop.debts()).toEqual([]);
  });

  it("gains nothing by cancelling with proration and subscribing again from the balance, after spending everything", async () => {
    const { w, paid, spend, basic, total, debts } = await plansShop(TODAY);
    await w.deliver(paid("in_0", [basic("il_0")]));
    await spend("e0", 1000);
    for (let turn = 1; turn <= 4; turn++) {
      const before = turn === 1 ? "in_0" : `in_${turn - 1}s`;
      const cancelled = [credit(basic("il_1", 1000), before, ["il_0"])];
      expect(await w.deliver(paid(`in_${turn}c`, cancelled))).toBe("remembered");
      expect(await w.deliver(paid(`in_${turn}s`, [basic("il_0")], { paid: 0 }))).toBe("granted");
      expect(await total()).toBe(0);
    }
    expect(await debts()).toEqual([]);
  });
});
