import { afterAll, describe, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { PRICES } from "../../support/payment-story.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";
import { invoice, invoicePayment } from "../../support/stripe-invoices.ts";
import { BEFORE, TODAY } from "../../support/stripe-versions.ts";

afterAll(expectLedgerInvariants);

const line = (price: string, fields: object = {}) => ({ id: `il_${price}`, price, ...fields });

describe.each([TODAY, BEFORE])("an invoice of API version %s", (version) => {
  const paid = (created: number, id: string, about: Parameters<typeof invoice>[1]) =>
    eventOf("invoice.paid", created, invoice(id, about, version), version);

  it("grants each line whose price is in the setting, by its quantity, and is joined to its payment intent", async () => {
    const w = await paymentsWorld();
    const event = paid(w.nowS, "in_1", {
      subscription: { user: "u" },
      paymentIntent: "pi_1",
      paid: 3000,
      lines: [
        line(PRICES.items, { quantity: 3 }),
        line(PRICES.wallet, { quantity: 2 }),
        line("price_of_another", { quantity: 9 }),
        line(PRICES.period, { amount: 0, proration: true }),
      ],
    });
    expect(await w.deliver(event)).toBe("granted");
    expect(await w.balances("u")).toEqual([
      ["tokens", 1200, "active"],
      ["cents", 501, "active"],
      ["cents", 15, "active"],
    ]);
    if (version === TODAY) {
      const tie = eventOf("invoice_payment.paid", w.nowS, invoicePayment("inpay_1", "in_1", "pi_1", 3000));
      expect(await w.deliver(tie)).toBe("remembered");
    }
    expect(await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 3000, 3000)))).toBe("taken");
    expect((await w.balances("u")).map(([, remaining, status]) => [remaining, status])).toEqual(
      Array(3).fill([0, "revoked"]),
    );
    const [payment] = await w.payments();
    expect(payment).toMatchObject({ paymentKey: "pi_1", names: ["pi_1", "in_1"], captured: 3000, refunded: 3000 });
  });

  it("grants credits that expire with the paid period", async () => {
    const w = await paymentsWorld();
    const period = { start: w.nowS, end: w.nowS + 3_600 };
    const about = (more: object) => ({ subscription: { user: "u" }, lines: [line(PRICES.period, more)] });
    expect(await w.deliver(paid(w.nowS, "in_1", about({ period })))).toBe("granted");
    const expiry = async () =>
      (await w.call("GET", "/api/v1/credits?userId=u", { key: w.app.keys.sk_live })).body.credits.map(
        (credit: { expiresAt: string | null }) => credit.expiresAt,
      );
    expect(await expiry()).toEqual([new Date(period.end * 1_000).toISOString()]);
    const over = { start: w.nowS - 7_200, end: w.nowS - 3_600 };
    expect(await w.deliver(paid(w.nowS, "in_2", about({ period: over })))).toBe("unmatched");
    const moment = { start: w.nowS, end: w.nowS };
    expect(await w.deliver(paid(w.nowS, "in_3", about({ period: moment })))).toBe("granted");
    expect(await expiry()).toEqual([new Date(period.end * 1_000).toISOString(), null]);
  });

  it("without a user waits for a session that names the customer's user", async () => {
    const w = await paymentsWorld();
    const about = { customer: "cus_9", subscription: {}, lines: [line(PRICES.period)] };
    for (const id of ["in_1", "in_2"]) expect(await w.deliver(paid(w.nowS, id, about))).toBe("unmatched");
    expect((await w.payments("&status=unmatched")).map((payment: { reason: string }) => payment.reason)).toEqual([
      "no_user",
      "no_user",
    ]);
    const fields = {
      mode: "subscription",
      customer: "cus_9",
      client_reference_id: "u",
      invoice: "in_1",
      subscription: "sub_1",
    };
    const signup = eventOf("checkout.session.completed", w.nowS + 1, session("cs_1", fields));
    expect((await w.send(signup)).body).toEqual({ received: true, outcome: "granted", paymentKey: "cs_1" });
    expect(await w.balances("u")).toEqual([
      ["tokens", 100, "active"],
      ["tokens", 100, "active"],
    ]);
    expect(await w.deliver(signup)).toBe("ignored");
    expect(await w.deliver(paid(w.nowS + 2, "in_3", about))).toBe("granted");
    const older = session("cs_0", { ...fields, client_reference_id: "before", invoice: null });
    expect(await w.deliver(eventOf("checkout.session.completed", w.nowS - 9, older))).toBe("ignored");
    const newer = session("cs_2", { ...fields, client_reference_id: "after", invoice: null });
    expect(await w.deliver(eventOf("checkout.session.completed", w.nowS + 9, newer))).toBe("remembered");
    expect(await w.deliver(paid(w.nowS + 10, "in_4", about))).toBe("granted");
    expect(await w.balances("after")).toEqual([["tokens", 100, "active"]]);
    expect(await w.balances("u")).toHaveLength(3);
  });

  it("is granted by a session of another invoice too, whose answer and log name the session's own payment", async () => {
    const w = await paymentsWorld();
    const about = { customer: "cus_9", subscription: {}, lines: [line(PRICES.period)] };
    expect(await w.deliver(paid(w.nowS, "in_1", about))).toBe("unmatched");
    const fields = { mode: "subscription", customer: "cus_9", client_reference_id: "u", invoice: "in_2" };
    const signup = eventOf("checkout.session.completed", w.nowS + 1, session("cs_2", fields));
    expect((await w.send(signup)).body).toEqual({ received: true, outcome: "granted", paymentKey: "cs_2" });
    expect(await w.balances("u")).toEqual([["tokens", 100, "active"]]);
    expect((await w.events("&outcome=granted"))[0]).toMatchObject({ eventId: signup.id, paymentKey: "cs_2" });
  });

  it("without a subscription is granted only to the user that it names", async () => {
    const w = await paymentsWorld();
    const lines = [line(PRICES.items)];
    const signup = { mode: "subscription", customer: "cus_9", client_reference_id: "u" };
    expect(await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", signup)))).toBe("remembered");
    const about = { customer: "cus_9", lines, paid: 0, total: 1000 };
    expect(await w.deliver(paid(w.nowS, "in_1", about))).toBe("unmatched");
    expect(await w.deliver(paid(w.nowS, "in_2", { ...about, metadata: { user: "v" } }))).toBe("granted");
    expect(await w.balances("u")).toEqual([]);
    expect(await w.balances("v")).toHaveLength(2);
  });

  it("is unmatched if it cannot be granted, and ignored if none of its prices is in the setting", async () => {
    const w = await paymentsWorld();
    const subscription = { user: "u" };
    const refused = [
      ["quantity", { subscription, lines: [line(PRICES.items, { quantity: 101 })] }],
      ["lines_missing", { subscription, lines: [line(PRICES.items)], hasMore: true }],
    ] as const;
    for (const [index, [reason, about]] of refused.entries()) {
      expect(await w.deliver(paid(w.nowS, `in_${index}`, about))).toBe("unmatched");
      expect((await w.payments("&limit=1"))[0]).toMatchObject({ reason, userId: "u" });
      w.clock.advance(1);
    }
    expect(await w.balances("u")).toEqual([]);
    const before = await w.stored();
    for (const lines of [
      [],
      [line("price_of_another")],
      [line(PRICES.items, { amount: 0 })],
      [line(PRICES.items, { quantity: 0 })],
    ]) {
      expect(await w.deliver(paid(w.nowS, "in_other", { subscription, lines }))).toBe("ignored");
    }
    expect(await w.stored()).toEqual(before);
  });
});

it("an invoice and a session of the same payment grant once, whichever comes first", async () => {
  const fields = { client_reference_id: "u", metadata: { pack: "two" }, payment_intent: "pi_1", invoice: "in_1" };
  const about = { metadata: { user: "u" }, lines: [line(PRICES.items)] };
  for (const order of [
    [0, 1],
    [1, 0],
  ]) {
    const w = await paymentsWorld();
    const events = [
      eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)),
      eventOf("invoice.paid", w.nowS, invoice("in_1", about)),
    ];
    for (const index of order) await w.deliver(events[index] ?? expect.fail());
    expect(await w.balances("u")).toEqual([
      ["tokens", 400, "active"],
      ["cents", 5, "active"],
    ]);
    expect((await w.payments())[0]).toMatchObject({ paymentKey: "pi_1", names: ["pi_1", "cs_1", "in_1"] });
  }
});

it("an invoice and a session of the same payment grant once if the invoice of no subscription comes first, which waits until its payment is known", async () => {
  const w = await paymentsWorld();
  const about = { metadata: { user: "u" }, lines: [line(PRICES.items)] };
  const bill = eventOf("invoice.paid", w.nowS, invoice("in_1", about));
  expect(await w.deliver(bill)).toBe("remembered");
  expect(await w.payments()).toMatchObject([{ status: "waiting", reason: null, invoice: null }]);
  const fields = { client_reference_id: "u", metadata: { pack: "two" }, payment_intent: "pi_1" };
  const tie = eventOf("invoice_payment.paid", w.nowS, invoicePayment("inpay_1", "in_1", "pi_1"));
  const sold = eventOf("checkout.session.completed", w.nowS, session("cs_1", fields));
  expect(await w.deliver(sold)).toBe("granted");
  expect(await w.deliver(tie)).toBe("remembered");
  for (const again of [bill, tie, sold]) expect(await w.deliver(again)).toBe("ignored");
  expect(await w.balances("u")).toHaveLength(2);
  expect(await w.payments()).toMatchObject([{ status: "granted", invoice: null }]);

  const alone = eventOf("invoice.paid", w.nowS, invoice("in_2", about));
  expect(await w.deliver(alone)).toBe("remembered");
  const tied = eventOf("invoice_payment.paid", w.nowS, invoicePayment("inpay_2", "in_2", "pi_2"));
  expect(await w.deliver(tied)).toBe("granted");
  expect(await w.balances("u")).toHaveLength(4);
  const outside = eventOf("invoice.paid", w.nowS, invoice("in_3", about));
  expect(await w.deliver(outside)).toBe("remembered");
  const byHand = { ...invoicePayment("inpay_3", "in_3", "pi_3"), payment: { type: "payment_record" } };
  expect(await w.deliver(eventOf("invoice_payment.paid", w.nowS, byHand))).toBe("granted");
});

it("an invoice and a session of the same payment keep only the first grant if both were granted before they were joined", async () => {
  const w = await paymentsWorld();
  const fields = { client_reference_id: "u", metadata: { pack: "two" }, payment_intent: "pi_1" };
  expect(await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)))).toBe("granted");
  w.clock.advance(1);
  for (const user of ["u", "v"]) {
    const id = `in_${user}`;
    const about = { metadata: { user }, lines: [line(PRICES.items)] };
    const bill = { ...about, subscription: { user } };
    expect(await w.deliver(eventOf("invoice.paid", w.nowS, invoice(id, bill)))).toBe("granted");
    const tie = eventOf("invoice_payment.paid", w.nowS, invoicePayment(`inpay_${user}`, id, "pi_1"));
    expect(await w.deliver(tie)).toBe("taken");
    expect(await w.deliver(tie)).toBe("ignored");
  }
  expect(
    (await w.balances("u")).map(([unit, remaining, status]) => `${unit} ${remaining} ${status}`).toSorted(),
  ).toEqual(["cents 0 revoked", "cents 5 active", "tokens 0 revoked", "tokens 400 active"]);
  expect(await w.balances("v")).toEqual([
    ["tokens", 0, "revoked"],
    ["cents", 0, "revoked"],
  ]);
  expect(await w.deliver(eventOf("charge.refunded", w.nowS, charge("ch_1", "pi_1", 500)))).toBe("taken");
  expect((await w.payments())[0]).toMatchObject({
    captured: 1000,
    refunded: 500,
    names: ["pi_1", "cs_1", "in_u", "in_v"],
  });
  const remaining = (await w.balances("u")).map(([, amount]) => amount).toSorted();
  expect(remaining).toEqual([0, 0, 2.5, 200].toSorted());
});
