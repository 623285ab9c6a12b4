import { afterAll, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { credit, plansShop, prorated } from "../../support/plans-shop.ts";
import { dispute } from "../../support/stripe-disputes.ts";
import { charge, eventOf, paymentIntent, session } from "../../support/stripe-events.ts";
import { invoicePayment } from "../../support/stripe-invoices.ts";
import { TODAY } from "../../support/stripe-versions.ts";

afterAll(expectLedgerInvariants);

type Shop = Awaited<ReturnType<typeof plansShop>>;
const paymentOf = async ({ w }: Shop, id: string) =>
  (await w.payments("&limit=100")).find(({ names }: { names: string[] }) => names.includes(id));

/** A shop with what a customer may do at the bank and at Stripe. */
async function attackedShop(more: Parameters<typeof plansShop>[1] = {}) {
  const shop = await plansShop(TODAY, more);
  const { w } = shop;
  let seconds = 100;
  const next = () => w.nowS + ++seconds;
  return {
    ...shop,
    tie: (id: string, amount: number) =>
      w.deliver(eventOf("invoice_payment.paid", next(), invoicePayment(`inpay_${id}`, `in_${id}`, `pi_${id}`, amount))),
    refund: (id: string, refunded: number, of: number) =>
      w.deliver(eventOf("charge.refunded", next(), charge(`ch_${id}`, `pi_${id}`, refunded, of))),
    dispute: (id: string, amount: number) => {
      const object = dispute(`dp_${id}`, `ch_${id}`, `pi_${id}`, amount, [-amount]);
      return w.deliver(eventOf("charge.dispute.funds_withdrawn", next(), object));
    },
    reinstate: (id: string, amount: number, moved: readonly number[], status: string) => {
      const object = dispute(`dp_${id}`, `ch_${id}`, `pi_${id}`, amount, moved, "usd", status);
      return w.deliver(eventOf("charge.dispute.funds_reinstated", next(), object));
    },
  };
}

it("whoever switches plans keeps no unspent credits after a dispute of both charges", async () => {
  const shop = await attackedShop();
  const { w, paid, basic, pro } = shop;
  await w.deliver(paid("in_1", [basic("il_1")]));
  await shop.tie("1", 1000);
  await shop.spend("e_1", 900);
  await w.deliver(paid("in_2", [credit(basic("il_2", 500)), prorated(pro("il_3", 1500))]));
  await shop.tie("2", 1000);
  expect(await shop.total()).toBe(1433.333);
  for (const id of ["2", "1"]) expect(await shop.dispute(id, 1000)).toBe("taken");
  expect([await shop.total(), await shop.carry()]).toEqual([0, 0]);
});

it("whoever switches plans keeps nothing of the old plan's money when it is both credited and refunded", async () => {
  const shop = await attackedShop();
  const { w, paid, basic, pro } = shop;
  await w.deliver(paid("in_1", [pro("il_1")]));
  await shop.tie("1", 3000);
  await w.deliver(paid("in_2", [credit(pro("il_2", 2900))]));
  expect(await shop.refund("1", 3000, 3000)).toBe("taken");
  // Stripe's balance of $29 pays these two invoices, and buys nothing.
  for (const id of ["3", "4"]) {
    expect(await w.deliver(paid(`in_${id}`, [basic(`il_${id}`)], { paid: 0 }))).toBe("ignored");
  }
  expect([await shop.total(), await shop.carry()]).toEqual([0, 900]);
});

it("whoever switches plans gets credits for no more than the cash, however often it switches to and fro", async () => {
  const shop = await attackedShop();
  const { w, paid, basic, pro } = shop;
  await w.deliver(paid("in_0", [basic("il_0")]));
  let [balance, cash] = [0, 1000];
  for (let n = 1; n <= 12; n++) {
    const up = [credit(basic(`il_a${n}`, 400)), prorated(pro(`il_b${n}`, 1200))];
    const down = [credit(pro(`il_a${n}`, 1100)), prorated(basic(`il_b${n}`, 350))];
    const total = n % 2 === 1 ? 800 : -750;
    const applied = Math.min(Math.max(0, total), balance);
    balance += total < 0 ? -total : -applied;
    cash += Math.max(0, total) - applied;
    await w.deliver(paid(`in_${n}`, n % 2 === 1 ? up : down, { paid: Math.max(0, total) - applied }));
  }
  // Pro's cents buy the most: 4,000 tokens for $30. Basic's first $10 bought 1,000.
  expect(await shop.carry()).toBe(balance);
  expect(await shop.total()).toBeLessThanOrEqual(1000 + ((cash - 1000) * 4000) / 3000);
  expect(await shop.total()).toBeGreaterThan(1000);
});

it("whoever switches plans lays nothing on a user whom another customer's invoice names", async () => {
  const shop = await attackedShop();
  const { w, paid, basic, pro } = shop;
  await w.deliver(paid("in_1", [credit(pro("il_1"))], { customer: "cus_thief" }));
  expect(await w.deliver(paid("in_2", [basic("il_2")]))).toBe("granted");
  expect(await shop.tokens()).toEqual([1000]);
  expect(await w.carries("u")).toEqual([{ customer: "cus_thief", currency: "usd", amount: 3000 }]);
});

const free = { amount: 0, discount: 0 };

it("a trial of any quantity, at any price of the pack, by any customer or user, is granted once", async () => {
  const shop = await attackedShop({ basic: { trial: true } });
  const { w, paid, basic, prices } = shop;
  const [first] = prices;
  const yearly = { ...first, price: "price_yearly" };
  expect((await w.set({ prices: [...prices, yearly] })).status).toBe(200);
  const trial = (id: string, price = "price_basic", quantity = 1_000) => ({ ...basic(id), ...free, price, quantity });
  expect(await w.deliver(paid("in_1", [trial("il_1")]))).toBe("granted");
  expect(await w.deliver(paid("in_2", [trial("il_2", "price_yearly")]))).toBe("ignored");
  expect(await w.deliver(paid("in_3", [trial("il_3")], { customer: "cus_other" }))).toBe("ignored");
  expect(await w.deliver(paid("in_4", [trial("il_4")], { subscription: { user: "v" } }))).toBe("ignored");
  expect(await w.deliver(paid("in_5", [trial("il_5"), trial("il_6")]))).toBe("ignored");
  expect([await shop.tokens("u"), await shop.tokens("v")]).toEqual([[1000], []]);
});

it("a trial is granted once when ten invoices of ten customers start it at once for one user", async () => {
  const shop = await attackedShop({ basic: { trial: true } });
  const { w, paid, basic } = shop;
  const events = Array.from({ length: 10 }, (_, n) =>
    paid(`in_${n}`, [{ ...basic("il_1"), ...free }], { customer: `cus_${n}` }),
  );
  let waiting = events;
  while (waiting.length > 0) {
    const answers = await Promise.all(waiting.map((event) => w.send(event)));
    waiting = waiting.filter((_, index) => answers[index]?.status !== 200);
  }
  expect(await shop.tokens()).toEqual([1000]);
});

it("a trial is not started again by revoking or refunding what it granted", async () => {
  const shop = await attackedShop({ basic: { trial: true } });
  const { w, paid, basic } = shop;
  await w.deliver(paid("in_1", [{ ...basic("il_1"), ...free }]));
  const { credits } = (await w.call("GET", "/api/v1/credits?userId=u", { key: w.app.keys.sk_live })).body;
  await w.post("credits/revoke", { balanceId: credits[0].balanceId });
  expect(await w.deliver(paid("in_2", [{ ...basic("il_2"), ...free }]))).toBe("ignored");
  expect(await shop.total()).toBe(0);
});

it("currencies are apart: a carry in one pays for nothing in another, and the setting's amount counts in its own alone", async () => {
  const shop = await attackedShop();
  const { w, paid, basic, pro } = shop;
  const inYen = (event: ReturnType<typeof paid>) => {
    const { object } = event.data as { object: object };
    return { ...event, data: { object: { ...object, currency: "jpy" } } };
  };
  // 1 yen is less than a cent's worth of Pro, but 3,000 of them look like $30.
  expect(await w.deliver(inYen(paid("in_1", [prorated(pro("il_1"))])))).toBe("unmatched");
  expect((await paymentOf(shop, "in_1")).reason).toBe("proration");
  await w.deliver(inYen(paid("in_2", [credit(basic("il_2", 700))])));
  expect(await w.deliver(paid("in_3", [basic("il_3")]))).toBe("granted");
  expect(await shop.tokens()).toEqual([1000]);
  expect(await w.carries("u")).toMatchObject([{ currency: "jpy", amount: 700 }]);
});

it("a dispute takes its remainder exactly while a third is still out, and gives all back once it is won", async () => {
  const shop = await attackedShop();
  const { w, paid, basic } = shop;
  await w.deliver(paid("in_1", [basic("il_1")]));
  await shop.tie("1", 1000);
  await shop.dispute("1", 100);
  expect(await shop.total()).toBe(900);
  // A third of 100 cents is out: 33.333… tokens of 1,000 are due, rounded down to a step.
  expect(await shop.reinstate("1", 100, [-3, 2], "needs_response")).toBe("restored");
  expect(await shop.total()).toBe(966.667);
  expect(await shop.reinstate("1", 100, [-3, 3], "won")).toBe("restored");
  expect(await shop.total()).toBe(1000);
});

it("a dispute and a refund of the same charge take no more than the charge, in either order", async () => {
  const shop = await attackedShop();
  const { w, paid, basic, pro } = shop;
  await w.deliver(paid("in_1", [basic("il_1")]));
  await w.deliver(paid("in_2", [pro("il_2")]));
  await shop.tie("1", 1000);
  await shop.tie("2", 3000);
  await shop.refund("1", 800, 1000);
  await shop.dispute("1", 1000);
  expect(await shop.total()).toBe(4000);
  await shop.dispute("2", 3000);
  expect(await shop.refund("2", 3000, 3000)).toBe("remembered");
  expect(await shop.reinstate("2", 3000, [-3000, 3000], "won")).toBe("remembered");
  expect(await shop.reinstate("1", 1000, [-1000, 1000], "won")).toBe("restored");
  expect(await shop.total()).toBe(200);
});

it("a dispute of a charge that paid a third of an invoice takes a third", async () => {
  const shop = await attackedShop();
  const { w, paid, pro } = shop;
  await w.deliver(paid("in_1", [pro("il_1")]));
  for (const [id, amount] of [
    ["a", 1000],
    ["b", 2000],
  ] as const) {
    const tie = invoicePayment(`inpay_${id}`, "in_1", `pi_${id}`, amount);
    await w.deliver(eventOf("invoice_payment.paid", w.nowS + 50, tie));
  }
  await shop.dispute("a", 1000);
  expect(await shop.total()).toBe(2666.667);
  await shop.dispute("b", 2000);
  expect(await shop.total()).toBe(0);
});

it("one payment that a session, an intent and an invoice tell at once for three users is granted to one of them", async () => {
  const shop = await attackedShop();
  const { w, paid, basic } = shop;
  const fields = { client_reference_id: "a", metadata: { pack: "Basic" }, payment_intent: "pi_1", invoice: "in_1" };
  const received = paymentIntent("pi_1", { metadata: { user: "b", pack: "Basic" }, amount_received: 1000 });
  let waiting = [
    eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)),
    eventOf("payment_intent.succeeded", w.nowS, received),
    paid("in_1", [basic("il_1")], { subscription: { user: "c" } }),
  ];
  while (waiting.length > 0) {
    const answers = await Promise.all(waiting.map((event) => w.send(event)));
    waiting = waiting.filter((_, index) => answers[index]?.status !== 200);
  }
  const totals = await Promise.all(["a", "b", "c"].map((user) => shop.total(user)));
  expect(totals.toSorted()).toEqual([0, 0, 1000]);
});

it("a payment that cannot be granted for less than a step creates no balance and is told by no error at any delivery", async () => {
  const shop = await attackedShop();
  const { w, paid, basic } = shop;
  const lines = [credit(basic("il_1", 99_999_999)), prorated({ ...basic("il_2"), amount: 100_000_000 })];
  const event = paid("in_1", lines);
  expect([await w.deliver(event), await w.deliver(event)]).toEqual(["remembered", "ignored"]);
  expect(await paymentOf(shop, "in_1")).toMatchObject({ status: "granted", grants: [], invoice: { share: 1e-8 } });
});

it.each([
  ["a quantity of 101", (shop: Shop) => shop.paid("in_1", [{ ...shop.basic("il_1"), quantity: 101 }])],
  [
    "the largest amounts of Stripe",
    ({ paid, basic }: Shop) => paid("in_1", [prorated({ ...basic("il_1"), amount: 99_999_999, quantity: 999_999 })]),
  ],
])(
  "a payment that cannot be granted gets 200 at every delivery, is told once, and can be settled: %s",
  async (_, eventIn) => {
    const shop = await attackedShop();
    const { w } = shop;
    const event = eventIn(shop);
    const outcomes = [await w.deliver(event)];
    for (let time = 0; time < 4; time++) outcomes.push(await w.deliver(event));
    expect(outcomes.slice(1)).toEqual(["ignored", "ignored", "ignored", "ignored"]);
    const { status, reason, grants } = await paymentOf(shop, "in_1");
    if (outcomes[0] === "unmatched") {
      expect([status, reason]).toEqual(["unmatched", "quantity"]);
      expect((await w.settle("in_1", { userId: "u", packId: "Basic" })).status).toBe(200);
      expect(await shop.total()).toBe(1000);
    } else expect([outcomes[0], grants.length > 0]).toEqual(["granted", true]);
  },
);
