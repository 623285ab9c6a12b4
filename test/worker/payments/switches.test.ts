import { afterAll, describe, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { credit, plansShop, prorated } from "../../support/plans-shop.ts";
import { BEFORE, TODAY } from "../../support/stripe-versions.ts";

afterAll(expectLedgerInvariants);

describe.each([TODAY, BEFORE])("a switch of plans, by API version %s", (version) => {
  it("grants what the invoice's money buys, and leaves what was granted before", async () => {
    const { w, paid, spend, basic, pro, tokens, carry } = await plansShop(version);
    expect(await w.deliver(paid("in_1", [basic("il_1")]))).toBe("granted");
    await spend("e1", 900);
    const switched = paid("in_2", [credit(basic("il_2", 500)), prorated(pro("il_3", 1500))]);
    expect(await w.deliver(switched)).toBe("granted");
    expect(await tokens()).toEqual([100, 1333.333]);
    expect(await carry()).toBe(0);
    const payment = (await w.payments()).find(({ names }: { names: string[] }) => names.includes("in_2"));
    expect(payment.invoice).toEqual({ bought: 1500, returned: 500, carried: 0, share: 2 / 3 });
    const stored = await w.stored();
    expect(await w.deliver(switched)).toBe("ignored");
    expect(await w.stored()).toEqual(stored);
  });

  it("lets the next invoices use up the carry of a downgrade", async () => {
    const { w, paid, basic, pro, tokens, carry } = await plansShop(version);
    await w.deliver(paid("in_1", [pro("il_1")]));
    expect(await w.deliver(paid("in_2", [credit(pro("il_2", 3000)), prorated(basic("il_3"))]))).toBe("ignored");
    expect(await carry()).toBe(2000);
    const [covered] = (await w.payments()).filter(({ names }: { names: string[] }) => names.includes("in_2"));
    expect(covered).toMatchObject({ status: "granted", reason: "covered_by_credit", grants: [], userId: "u" });
    expect(await w.deliver(paid("in_3", [basic("il_4")], { paid: 0 }))).toBe("ignored");
    expect(await carry()).toBe(1000);
    expect(await w.deliver(paid("in_4", [basic("il_5")], { paid: 0 }))).toBe("ignored");
    expect(await carry()).toBe(0);
    expect(await w.deliver(paid("in_5", [basic("il_6")]))).toBe("granted");
    expect(await tokens()).toEqual([1000, 4000]);
  });

  it("grants nothing for what a toggle on one invoice bought and returned", async () => {
    const { w, paid, basic, pro, tokens, carry } = await plansShop(version);
    await w.deliver(paid("in_1", [basic("il_1")]));
    const toggled = [credit(basic("il_2", 1000)), prorated(pro("il_3")), credit(pro("il_4", 3000))];
    expect(await w.deliver(paid("in_2", toggled))).toBe("ignored");
    expect([await tokens(), await carry()]).toEqual([[1000], 1000]);
  });

  it("remembers an all-negative invoice in the carry, once", async () => {
    const { w, paid, basic, carry } = await plansShop(version);
    const negative = paid("in_1", [credit(basic("il_1", 400))]);
    expect(await w.deliver(negative)).toBe("remembered");
    expect(await w.deliver(negative)).toBe("ignored");
    expect(await carry()).toBe(400);
  });
});
