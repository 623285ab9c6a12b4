import { describe, expect, it } from "vitest";
import { ADMIN, paymentsWorld } from "../../support/payments.ts";
import { charge, dispute, eventOf, session } from "../../support/stripe-events.ts";

/** Seven payments: plain, partly and wholly refunded, disputed, settled by hand, of another user, and one in euros without a pack. */
async function sevenPayments() {
  const w = await paymentsWorld();
  const buy = async (n: number, fields: object) => {
    w.clock.advance(1);
    const metadata = { pack: "Two" };
    const bought = session(`cs_${n}`, { client_reference_id: "u", metadata, payment_intent: `pi_${n}`, ...fields });
    await w.deliver(eventOf("checkout.session.completed", w.nowS, bought));
  };
  await buy(1, {});
  await buy(2, {});
  await buy(3, {});
  await buy(4, {});
  await buy(5, { metadata: { pack: "gone" } });
  await buy(6, { client_reference_id: "v" });
  await buy(7, { metadata: { pack: "gone" }, currency: "eur" });
  await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_2", "pi_2", 250)));
  await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_3", "pi_3", 1000)));
  await w.deliver(eventOf("charge.dispute.funds_withdrawn", w.nowS + 1, dispute("dp_4", "ch_4", "pi_4", 400, [-400])));
  expect((await w.settle("pi_5", { userId: "u", packId: "Two" })).status).toBe(200);
  const list = async (query: string) =>
    (await w.admin("GET", `${w.path}/payments?mode=live${query}`, { key: ADMIN })).body;
  const keys = async (query: string) =>
    (await list(query)).payments.map(({ paymentKey }: { paymentKey: string }) => paymentKey).toSorted();
  return { w, list, keys };
}

describe("the list of payments", () => {
  it("leaves those of a refund, a dispute, who granted, a user and a reference, and sums what it leaves", async () => {
    const { list, keys } = await sevenPayments();
    expect(await keys("")).toEqual(["pi_1", "pi_2", "pi_3", "pi_4", "pi_5", "pi_6", "pi_7"]);
    expect(await keys("&refunds=part")).toEqual(["pi_2"]);
    expect(await keys("&refunds=whole")).toEqual(["pi_3"]);
    expect(await keys("&refunds=none&status=granted")).toEqual(["pi_1", "pi_4", "pi_5", "pi_6"]);
    expect(await keys("&isDisputed=true")).toEqual(["pi_4"]);
    expect(await keys("&isDisputed=false&status=unmatched")).toEqual(["pi_7"]);
    expect(await keys("&settledBy=admin")).toEqual(["pi_5"]);
    expect(await keys("&settledBy=stripe")).toEqual(["pi_1", "pi_2", "pi_3", "pi_4", "pi_6"]);
    expect(await keys("&userId=v")).toEqual(["pi_6"]);
    expect(await keys("&userId=u")).toEqual(["pi_1", "pi_2", "pi_3", "pi_4", "pi_5", "pi_7"]);
    expect(await keys("&userId=u&refunds=part")).toEqual(["pi_2"]);
    expect(await keys("&externalRef=stripe:pi_3")).toEqual(["pi_3"]);
    expect(await keys("&externalRef=stripe:pi_3&userId=v")).toEqual([]);
    expect(await keys("&externalRef=order-1")).toEqual([]);
    const { sums, debt, payments } = await list("&limit=2");
    expect(sums).toEqual([
      { currency: "eur", captured: 1000, refunded: 0, withheld: 0 },
      { currency: "usd", captured: 6000, refunded: 1250, withheld: 400 },
    ]);
    expect(debt).toBeUndefined();
    expect(payments).toHaveLength(2);
    const of = await list("&userId=u&refunds=whole");
    expect(of.sums).toEqual([{ currency: "usd", captured: 1000, refunded: 1000, withheld: 0 }]);
    expect(of.debt).toEqual([]);
    expect(of.payments).toMatchObject([{ refunds: "whole", isDisputed: false, settledBy: "stripe" }]);
  });

  it("sums on the first page alone, and goes on behind its filters' cursor", async () => {
    const { list } = await sevenPayments();
    const first = await list("&userId=u&limit=4");
    const next = await list(`&userId=u&limit=4&cursor=${first.nextCursor}`);
    expect(next.payments).toHaveLength(2);
    expect(next).not.toHaveProperty("sums");
    expect(next).not.toHaveProperty("debt");
    expect((await list(`&userId=v&cursor=${first.nextCursor}`)).error.code).toBe("invalid_request");
  });
});
