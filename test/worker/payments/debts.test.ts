import { afterAll, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { credit, plansShop } from "../../support/plans-shop.ts";
import { charge, eventOf, refund } from "../../support/stripe-events.ts";
import { invoicePayment } from "../../support/stripe-invoices.ts";
import { TODAY } from "../../support/stripe-versions.ts";

afterAll(expectLedgerInvariants);

it("a failed refund gives back the credits with which another user of the customer paid its debt", async () => {
  const { w, paid, basic, tokens, debts } = await plansShop(TODAY);
  expect(await w.deliver(paid("in_1", [basic("il_1")], { paymentIntent: "pi_1" }))).toBe("granted");
  await w.deliver(eventOf("invoice_payment.paid", w.nowS, invoicePayment("inpay_1", "in_1", "pi_1")));
  expect(await w.deliver(paid("in_2", [credit(basic("il_2", 500), "in_1", ["il_1"])]))).toBe("taken");
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 10, charge("ch_1", "pi_1", 1000)))).toBe("taken");
  expect(await debts()).toEqual([500]);
  expect(await w.deliver(paid("in_3", [basic("il_3")], { subscription: { user: "v" } }))).toBe("granted");
  expect([await tokens(), await tokens("v"), await debts()]).toEqual([[0], [500], []]);
  const failed = eventOf("refund.failed", w.nowS + 20, refund("re_1", "ch_1", "pi_1", 1000, "failed"));
  expect(await w.deliver(failed)).toBe("restored");
  expect([await tokens(), await tokens("v"), await debts()]).toEqual([[500], [1000], []]);
  const stored = await w.stored();
  expect(await w.deliver(failed)).toBe("ignored");
  expect(await w.stored()).toEqual(stored);
});

it("a debt ends with the erasure of its user, and no later line of the customer pays it", async () => {
  const { w, paid, spend, basic, tokens, debts } = await plansShop(TODAY);
  await w.deliver(paid("in_1", [basic("il_1")]));
  await spend("e1", 1000);
  expect(await w.deliver(paid("in_2", [credit(basic("il_2", 1000), "in_1", ["il_1"])]))).toBe("remembered");
  expect(await debts()).toEqual([1000]);
  expect((await w.post("erase-person", { distinctId: "u" })).body).toMatchObject({ status: "completed" });
  expect(await debts()).toEqual([]);
  expect(await w.deliver(paid("in_3", [basic("il_3")], { subscription: { user: "v" } }))).toBe("granted");
  expect([await tokens("v"), await debts()]).toEqual([[1000], []]);
});
