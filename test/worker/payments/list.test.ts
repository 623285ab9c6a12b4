import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { paymentsWorld } from "../../support/payments.ts";
import { credit, plansShop } from "../../support/plans-shop.ts";
import { createRandom } from "../../support/random.ts";
import { dispute } from "../../support/stripe-disputes.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";
import { TODAY } from "../../support/stripe-versions.ts";

/** Makes seven payments: plain, refunded in part, refunded, disputed, settled by hand, of another user, and in euros without a pack. */
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
    (await w.admin("GET", `${w.path}/payments?mode=live${query}`, { key: env.ADMIN_TOKEN })).body;
  const keys = async (query: string) =>
    (await list(query)).payments.map(({ paymentKey }: { paymentKey: string }) => paymentKey).toSorted();
  return { w, list, keys };
}

it("the list of payments can be filtered by refund, dispute, who settled, user and reference, and sums what is left", async () => {
  const { w, list, keys } = await sevenPayments();
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
  // An event has Stripe's time, not that of its arrival.
  const refunded = (await list("&refunds=part")).payments[0].events.at(-1);
  expect(refunded).toMatchObject({ type: "charge.refunded", at: new Date((w.nowS + 1) * 1_000).toISOString() });
  const { sums, carry, payments } = await list("&limit=2");
  expect(sums).toEqual([
    { currency: "eur", captured: 1000, refunded: 0, withheld: 0 },
    { currency: "usd", captured: 6000, refunded: 1250, withheld: 400 },
  ]);
  expect(carry).toBeUndefined();
  expect(payments).toHaveLength(2);
  const of = await list("&userId=u&refunds=whole");
  expect(of.sums).toEqual([{ currency: "usd", captured: 1000, refunded: 1000, withheld: 0 }]);
  expect(of.carry).toEqual([]);
  expect(of.payments).toMatchObject([{ refunds: "whole", isDisputed: false, settledBy: "stripe" }]);
});

it("the list of payments has sums only on the first page, and continues by the cursor with its filters", async () => {
  const { list } = await sevenPayments();
  const first = await list("&userId=u&limit=4");
  const next = await list(`&userId=u&limit=4&cursor=${first.nextCursor}`);
  expect(next.payments).toHaveLength(2);
  expect(next).not.toHaveProperty("sums");
  expect(next).not.toHaveProperty("carry");
  expect((await list(`&userId=v&cursor=${first.nextCursor}`)).error.code).toBe("invalid_request");
});

it("the list of payments has the payments and sums of a model of random payments, for every pair of filters", {
  timeout: 90_000,
}, async () => {
  const random = createRandom(33);
  const w = await paymentsWorld();
  const users = ["u", "v", "w"] as const;
  const model: PaymentModel[] = [];
  for (let n = 1; n <= 24; n++) {
    w.clock.advance(1);
    const [userId, currency] = [random.pick(users), random.pick(["usd", "usd", "eur"] as const)];
    const isGone = random.chance(0.3);
    const metadata = { pack: isGone ? "gone" : "Two" };
    const fields = { client_reference_id: userId, metadata, payment_intent: `pi_${n}`, currency };
    await w.deliver(eventOf("checkout.session.completed", w.nowS, session(`cs_${n}`, fields)));
    const refunded = random.pick([0, 0, 400, 1000] as const);
    const back = { ...charge(`ch_${n}`, `pi_${n}`, refunded), currency };
    if (refunded > 0) await w.deliver(eventOf("charge.refunded", w.nowS + 1, back));
    const withheld = random.pick([0, 0, 300] as const);
    const lost = dispute(`dp_${n}`, `ch_${n}`, `pi_${n}`, withheld, [-withheld], currency);
    if (withheld > 0) await w.deliver(eventOf("charge.dispute.funds_withdrawn", w.nowS + 1, lost));
    const isSettled = isGone && random.chance(0.5);
    if (isSettled) await w.settle(`pi_${n}`, { userId, packId: "Two" });
    model.push({
      ...{ key: `pi_${n}`, userId, currency, captured: 1000, refunded, withheld },
      status: isGone && !isSettled ? "unmatched" : "granted",
      refunds: refunded === 0 ? "none" : refunded === 1000 ? "whole" : "part",
      isDisputed: withheld > 0,
      settledBy: isSettled ? "admin" : isGone ? null : "stripe",
      externalRef: isGone && !isSettled ? null : `stripe:pi_${n}`,
    });
  }
  const singleFilters: readonly Partial<PaymentModel>[] = [
    ...([{ status: "granted" }, { status: "unmatched" }, { status: "waiting" }] as const),
    ...([{ refunds: "none" }, { refunds: "part" }, { refunds: "whole" }] as const),
    ...[{ isDisputed: true }, { isDisputed: false }],
    ...([{ settledBy: "admin" }, { settledBy: "stripe" }] as const),
    ...users.map((userId) => ({ userId })),
    ...["stripe:pi_3", "stripe:pi_7", "order-1"].map((externalRef) => ({ externalRef })),
  ];
  for (const [index, first] of singleFilters.entries()) {
    for (const second of singleFilters.slice(index)) {
      const filters = { ...first, ...second };
      const query = Object.entries(filters).map(([name, value]) => `&${name}=${value}`);
      const left = model.filter((payment) => passes(payment, filters));
      const { body } = await w.admin("GET", `${w.path}/payments?mode=live&limit=500${query.join("")}`, {
        key: env.ADMIN_TOKEN,
      });
      const keys = body.payments.map(({ paymentKey }: { paymentKey: string }) => paymentKey);
      expect(keys, query.join("")).toEqual(left.map(({ key }) => key).toReversed());
      expect(body.sums, query.join("")).toEqual(sumsOf(left));
      for (const shown of body.payments) {
        const { refunds, isDisputed, settledBy, refunded, withheld, userId } =
          left.find(({ key }) => key === shown.paymentKey) ?? expect.fail();
        expect(shown).toMatchObject({ refunds, isDisputed, settledBy, refunded, withheld, userId });
      }
    }
  }
});

interface PaymentModel {
  readonly key: string;
  readonly userId: string;
  readonly currency: string;
  readonly captured: number;
  readonly refunded: number;
  readonly withheld: number;
  readonly status: string;
  readonly refunds: string;
  readonly isDisputed: boolean;
  readonly settledBy: string | null;
  readonly externalRef: string | null;
}

const passes = (payment: PaymentModel, filters: Partial<PaymentModel>): boolean =>
  Object.entries(filters).every(([name, value]) => payment[name as keyof PaymentModel] === value);

function sumsOf(payments: readonly PaymentModel[]) {
  const currencies = [...new Set(payments.map(({ currency }) => currency))].toSorted();
  return currencies.map((currency) => {
    const ofCurrency = payments.filter((payment) => payment.currency === currency);
    const sum = (of: (payment: PaymentModel) => number) => ofCurrency.reduce((all, payment) => all + of(payment), 0);
    return {
      ...{ currency, captured: sum(({ captured }) => captured) },
      ...{ refunded: sum(({ refunded }) => refunded), withheld: sum(({ withheld }) => withheld) },
    };
  });
}

it("the list of payments shows the carries of a user's customers, and what each invoice bought and returned", async () => {
  const { w, paid, basic } = await plansShop(TODAY);
  const list = async (query: string) =>
    (await w.admin("GET", `${w.path}/payments?mode=live${query}`, { key: env.ADMIN_TOKEN })).body;
  await w.deliver(paid("in_1", [basic("il_1")]));
  await w.deliver(paid("in_2", [credit(basic("il_2", 600))]));
  expect((await list("&userId=u")).carry).toEqual([{ customer: "cus_1", currency: "usd", amount: 600 }]);
  expect((await list("&userId=v")).carry).toEqual([]);
  await w.deliver(paid("in_3", [basic("il_3", 1000)], { paid: 400 }));
  const { carry, payments } = await list("&userId=u");
  expect(carry).toEqual([]);
  const invoiceOf = (id: string) => payments.find(({ names }: { names: string[] }) => names.includes(id)).invoice;
  expect(invoiceOf("in_1")).toEqual({ bought: 1000, returned: 0, carried: 0, share: 1 });
  expect(invoiceOf("in_2")).toEqual({ bought: 0, returned: 600, carried: 0, share: 0 });
  expect(invoiceOf("in_3")).toEqual({ bought: 1000, returned: 0, carried: 600, share: 0.4 });
});
