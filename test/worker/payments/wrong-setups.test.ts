import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { PRICES } from "../../support/payment-story.ts";
import { type PaymentsWorld, paymentsWorld } from "../../support/payments.ts";
import { dispute } from "../../support/stripe-disputes.ts";
import { charge, eventOf, refund, session, type TestEvent } from "../../support/stripe-events.ts";
import { invoice } from "../../support/stripe-invoices.ts";

type Fields = Readonly<Record<string, unknown>>;
type Wrong = readonly [
  name: string,
  event: (w: PaymentsWorld) => TestEvent | Promise<TestEvent>,
  found: { readonly outcome?: string; readonly reason: string; readonly hint: RegExp },
];

const completed = (fields: Fields) => (w: PaymentsWorld) =>
  eventOf("checkout.session.completed", w.nowS, session("cs_1", { payment_intent: "pi_1", ...fields }));
const received =
  (metadata: Fields, fields: Fields = {}) =>
  (w: PaymentsWorld) =>
    eventOf("payment_intent.succeeded", w.nowS, {
      ...{
        id: "pi_1",
        object: "payment_intent",
        amount: 1000,
        amount_received: 1000,
        currency: "usd",
        metadata,
        ...fields,
      },
    });
const paid = (about: Parameters<typeof invoice>[1]) => (w: PaymentsWorld) =>
  eventOf("invoice.paid", w.nowS, invoice("in_1", about));
const other =
  (type: string, object: Fields = { id: "obj_1" }) =>
  (w: PaymentsWorld) =>
    eventOf(type, w.nowS, object);
const namesUser = { client_reference_id: "u" };
const line = { id: "il_1", price: PRICES.items };

const unmatched = "unmatched";
const WRONG: readonly Wrong[] = [
  // Keys of metadata that Purser does not read.
  [
    "metadata.userId and packId",
    completed({ metadata: { userId: "u", packId: "Two" } }),
    {
      reason: "another_product",
      hint: /`metadata.userId` is not read: name it `user`.*`metadata.packId` is not read: name it `pack`/,
    },
  ],
  [
    "metadata.user_id",
    completed({ metadata: { user_id: "u", pack: "Two" } }),
    { outcome: unmatched, reason: "no_user", hint: /`metadata.user_id` is not read: name it `user`/ },
  ],
  [
    "metadata.userID",
    completed({ metadata: { userID: "u", pack: "Two" } }),
    { outcome: unmatched, reason: "no_user", hint: /`metadata.userID` is not read/ },
  ],
  [
    "metadata.User",
    completed({ metadata: { User: "u", pack: "Two" } }),
    { outcome: unmatched, reason: "no_user", hint: /`metadata.User` is not read: name it `user`/ },
  ],
  [
    "metadata.uid",
    completed({ metadata: { uid: "u", pack: "Two" } }),
    { outcome: unmatched, reason: "no_user", hint: /`metadata.uid` is not read/ },
  ],
  [
    "metadata.client_reference_id",
    completed({ metadata: { client_reference_id: "u", pack: "Two" } }),
    { outcome: unmatched, reason: "no_user", hint: /`metadata.client_reference_id` is not read: name it `user`/ },
  ],
  [
    "metadata.customer_id",
    completed({ metadata: { customer_id: "u", pack: "Two" } }),
    { outcome: unmatched, reason: "no_user", hint: /`metadata.customer_id` is not read/ },
  ],
  [
    "metadata.packId",
    completed({ ...namesUser, metadata: { packId: "Two" } }),
    { outcome: unmatched, reason: "no_pack", hint: /`metadata.packId` is not read: name it `pack`/ },
  ],
  [
    "metadata.pack_id",
    completed({ ...namesUser, metadata: { pack_id: "Two" } }),
    { outcome: unmatched, reason: "no_pack", hint: /`metadata.pack_id` is not read/ },
  ],
  [
    "metadata.packName",
    completed({ ...namesUser, metadata: { packName: "Two" } }),
    { outcome: unmatched, reason: "no_pack", hint: /`metadata.packName` is not read/ },
  ],
  [
    "metadata.Pack",
    completed({ ...namesUser, metadata: { Pack: "Two" } }),
    { outcome: unmatched, reason: "no_pack", hint: /`metadata.Pack` is not read/ },
  ],
  [
    "metadata.product",
    completed({ ...namesUser, metadata: { product: "Two" } }),
    { outcome: unmatched, reason: "no_pack", hint: /`metadata.product` is not read/ },
  ],
  [
    "metadata.qty",
    completed({ ...namesUser, metadata: { pack: "Tokens", qty: "5" } }),
    { outcome: unmatched, reason: "quantity", hint: /`metadata.qty` is not read: name it `quantity`/ },
  ],
  [
    "metadata.credits",
    completed({ ...namesUser, metadata: { pack: "Tokens", credits: "5" } }),
    { outcome: unmatched, reason: "quantity", hint: /`metadata.credits` is not read: name it `quantity`/ },
  ],
  // Sessions.
  [
    "no client_reference_id",
    completed({ metadata: { pack: "Two" } }),
    { outcome: unmatched, reason: "no_user", hint: /`client_reference_id` is missing/ },
  ],
  [
    "an empty client_reference_id",
    completed({ client_reference_id: "", metadata: { pack: "Two" } }),
    { outcome: unmatched, reason: "no_user", hint: /`client_reference_id` is missing/ },
  ],
  [
    "a user id with a line break",
    completed({ client_reference_id: "u\n1", metadata: { pack: "Two" } }),
    { outcome: unmatched, reason: "no_user", hint: /is not a valid user id/ },
  ],
  [
    "a user id that is too long",
    completed({ client_reference_id: "u".repeat(201), metadata: { pack: "Two" } }),
    { outcome: unmatched, reason: "no_user", hint: /1 to 200 characters/ },
  ],
  [
    "a session without any metadata",
    completed({}),
    { reason: "another_product", hint: /`client_reference_id`.*`metadata.pack`/ },
  ],
  [
    "a user without a pack",
    completed({ ...namesUser }),
    { outcome: unmatched, reason: "no_pack", hint: /`metadata.pack` is missing/ },
  ],
  [
    "an unknown pack",
    completed({ ...namesUser, metadata: { pack: "Starter" } }),
    { outcome: unmatched, reason: "no_pack", hint: /no pack with this id or name/ },
  ],
  [
    "a price's id as the pack",
    completed({ ...namesUser, metadata: { pack: "price_1" } }),
    { outcome: unmatched, reason: "no_pack", hint: /no pack with this id or name/ },
  ],
  [
    "no quantity of a pack without items",
    completed({ ...namesUser, metadata: { pack: "Tokens" } }),
    { outcome: unmatched, reason: "quantity", hint: /`metadata.quantity` is missing/ },
  ],
  [
    "a quantity with a separator",
    completed({ ...namesUser, metadata: { pack: "Tokens", quantity: "1,000" } }),
    { outcome: unmatched, reason: "quantity", hint: /must be a number above 0/ },
  ],
  [
    "a quantity of 0",
    completed({ ...namesUser, metadata: { pack: "Tokens", quantity: "0" } }),
    { outcome: unmatched, reason: "quantity", hint: /must be a number above 0/ },
  ],
  [
    "a quantity finer than the unit",
    completed({ ...namesUser, metadata: { pack: "Tokens", quantity: "0.0001" } }),
    { outcome: unmatched, reason: "quantity", hint: /unit can hold/ },
  ],
  [
    "an empty quantity",
    completed({ ...namesUser, metadata: { pack: "Tokens", quantity: "" } }),
    { outcome: unmatched, reason: "quantity", hint: /must be a number above 0/ },
  ],
  [
    "a wallet paid in another currency",
    completed({ ...namesUser, currency: "eur", metadata: { pack: "Wallet" } }),
    { outcome: unmatched, reason: "currency", hint: /another currency/ },
  ],
  [
    "a wallet with a coupon of 100 %",
    completed({
      ...namesUser,
      metadata: { pack: "Wallet" },
      amount_total: 0,
      total_details: { amount_discount: 1000 },
    }),
    { outcome: unmatched, reason: "quantity", hint: /Nothing was paid/ },
  ],
  [
    "a session that is not paid yet",
    completed({ ...namesUser, metadata: { pack: "Two" }, payment_status: "unpaid" }),
    { reason: "unpaid", hint: /async_payment_succeeded/ },
  ],
  [
    "mode setup",
    completed({ ...namesUser, mode: "setup", metadata: { pack: "Two" } }),
    { reason: "setup_mode", hint: /`mode: "setup"`/ },
  ],
  [
    "a subscription that names nobody",
    completed({ mode: "subscription", customer: "cus_1", subscription: "sub_1" }),
    { reason: "no_user", hint: /subscription_data.metadata.user/ },
  ],
  [
    "a subscription with metadata.userId",
    completed({ mode: "subscription", customer: "cus_1", metadata: { userId: "u" } }),
    { reason: "no_user", hint: /`metadata.userId` is not read/ },
  ],
  // Payment intents.
  [
    "an intent without metadata",
    received({}),
    { reason: "another_product", hint: /`metadata.user` and the pack in `metadata.pack`/ },
  ],
  [
    "an intent with userId and packId",
    received({ userId: "u", packId: "Two" }),
    { reason: "another_product", hint: /name it `user`.*name it `pack`/ },
  ],
  [
    "an intent with pack_id",
    received({ user: "u", pack_id: "Two" }),
    { reason: "another_product", hint: /`metadata.pack_id` is not read/ },
  ],
  [
    "an intent of an unknown pack",
    received({ user: "u", pack: "gone" }),
    { outcome: unmatched, reason: "no_pack", hint: /no pack with this id or name/ },
  ],
  [
    "an intent in another currency",
    received({ user: "u", pack: "Wallet" }, { currency: "eur" }),
    { outcome: unmatched, reason: "currency", hint: /another currency/ },
  ],
  // Invoices.
  [
    "a price that is not in the setting",
    paid({ lines: [{ id: "il_1", price: "price_new" }], subscription: { user: "u" } }),
    { reason: "price_not_set", hint: /Add `price_new` to the setting's `prices`/ },
  ],
  [
    "a subscription's invoice without a user",
    paid({ lines: [line], subscription: {} }),
    { outcome: unmatched, reason: "no_user", hint: /subscription_data.metadata.user/ },
  ],
  [
    "a subscription's metadata.user_id",
    paid({ lines: [line], subscription: { user_id: "u" } }),
    { outcome: unmatched, reason: "no_user", hint: /`metadata.user_id` is not read/ },
  ],
  [
    "an invoice without a subscription and without a user",
    paid({ lines: [line], paid: 0, total: 1000 }),
    { outcome: unmatched, reason: "no_user", hint: /or of an invoice without one/ },
  ],
  [
    "a line with a quantity of 101",
    paid({ lines: [{ ...line, quantity: 101 }], subscription: { user: "u" } }),
    { outcome: unmatched, reason: "quantity", hint: /above 100/ },
  ],
  [
    "a period that is over",
    paid({ lines: [{ id: "il_1", price: PRICES.period, period: { start: 1, end: 2 } }], subscription: { user: "u" } }),
    { outcome: unmatched, reason: "period_over", hint: /period that was paid for has ended/ },
  ],
  [
    "more lines than an event holds",
    paid({ lines: [line], subscription: { user: "u" }, hasMore: true }),
    { outcome: unmatched, reason: "lines_missing", hint: /more lines/ },
  ],
  [
    "a proration without the price's amount",
    paid({ lines: [{ ...line, proration: true }], subscription: { user: "u" } }),
    { outcome: unmatched, reason: "proration", hint: /full `amount`/ },
  ],
  [
    "a product's id among the prices",
    async (w) => {
      await w.set({ prices: [{ price: "prod_1", packId: "Two" }] });
      return paid({ lines: [{ id: "il_1", price: "price_1" }], subscription: { user: "u" } })(w);
    },
    { reason: "price_not_set", hint: /Add `price_1` to the setting's `prices`/ },
  ],
  [
    "a free line of a price without a trial",
    paid({ lines: [{ ...line, amount: 0 }], subscription: { user: "u" } }),
    { reason: "price_not_set", hint: /has `trial: true`/ },
  ],
  [
    "a pack that was archived after its price was set",
    async (w) => {
      await w.admin("POST", `${w.path}/packs/${w.packs.items}/archive`, { key: env.ADMIN_TOKEN, body: {} });
      return paid({ lines: [line], subscription: { user: "u" } })(w);
    },
    { outcome: unmatched, reason: "no_pack", hint: /does not exist or is archived/ },
  ],
  [
    "metadata of the payment intent alone, read by no endpoint",
    completed({ metadata: null }),
    { reason: "another_product", hint: /`client_reference_id`.*`metadata.pack`/ },
  ],
  [
    "a space around the pack's name",
    completed({ ...namesUser, metadata: { pack: " Two" } }),
    { outcome: unmatched, reason: "no_pack", hint: /no pack with this id or name/ },
  ],
  // The wrong events.
  ["charge.succeeded", other("charge.succeeded"), { reason: "another_type", hint: /`checkout.session.completed`/ }],
  ["invoice.payment_succeeded", other("invoice.payment_succeeded"), { reason: "another_type", hint: /`invoice.paid`/ }],
  [
    "customer.subscription.created",
    other("customer.subscription.created"),
    { reason: "another_type", hint: /`invoice.paid`/ },
  ],
  [
    "charge.dispute.created",
    other("charge.dispute.created"),
    { reason: "another_type", hint: /`charge.dispute.funds_withdrawn`/ },
  ],
  ["charge.refund.updated", other("charge.refund.updated"), { reason: "another_type", hint: /`refund.updated`/ }],
  [
    "payment_intent.created",
    other("payment_intent.created"),
    { reason: "another_type", hint: /`payment_intent.succeeded`/ },
  ],
  ["all events", other("customer.created"), { reason: "another_type", hint: /remove it/ }],
  // Events of another account or mode, or of another form.
  [
    "a connected account's events",
    (w) => ({ ...completed({ ...namesUser, metadata: { pack: "Two" } })(w), account: "acct_1" }),
    { reason: "connect", hint: /connected account/ },
  ],
  [
    "test events to the live URL",
    (w) => ({ ...completed({ ...namesUser, metadata: { pack: "Two" } })(w), livemode: false }),
    { reason: "livemode", hint: /`\/test`/ },
  ],
  [
    "thin events",
    () => ({ id: "evt_thin", object: "v2.core.event", type: "v1.billing.meter.no_meter_found", created: 1 }),
    { reason: "thin_event", hint: /Snapshot/ },
  ],
  [
    "a payload that was changed on its way",
    other("checkout.session.completed", { id: "cs_1" }),
    { reason: "shape", hint: /differs from what Stripe sends: .*required/ },
  ],
  [
    "a refund without a charge",
    (w) =>
      eventOf("refund.failed", w.nowS, {
        ...refund("re_1", "ch_1", "pi_1", 100, "failed"),
        charge: null,
        payment_intent: null,
      }),
    { reason: "no_payment", hint: /outside of Stripe/ },
  ],
];

it("at least fifty wrong setups are tested", () => expect(WRONG.length).toBeGreaterThanOrEqual(50));

it.each(WRONG)("the log shows the correction for %s", async (_, eventOf, { outcome = "ignored", reason, hint }) => {
  const w = await paymentsWorld();
  const event = await eventOf(w);
  await w.send(event);
  const [entry, ...others] = await w.events();
  expect(others).toEqual([]);
  expect(entry).toMatchObject({
    eventId: event.id,
    type: event.type,
    outcome,
    reason,
    hint: expect.stringMatching(hint),
  });
  expect(await w.balances("u")).toEqual([]);
});

it("the log explains a second trial and an erased user", async () => {
  const w = await paymentsWorld();
  await w.set({ prices: [{ price: PRICES.items, packId: "Two", trial: true }] });
  const free = (id: string, seconds: number, user: string) =>
    eventOf(
      "invoice.paid",
      w.nowS + seconds,
      invoice(id, { lines: [{ ...line, amount: 0 }], paid: 0, subscription: { user } }),
    );
  expect(await w.deliver(free("in_1", 0, "u"))).toBe("granted");
  expect(await w.deliver(free("in_2", 1, "u"))).toBe("ignored");
  expect((await w.post("erase-person", { distinctId: "gone" })).status).toBe(200);
  expect(await w.deliver(free("in_3", 2, "gone"))).toBe("unmatched");
  const log: { objectId: string; reason: unknown; hint: unknown }[] = await w.events();
  expect(log.find(({ objectId }) => objectId === "in_2")).toMatchObject({
    reason: "trial_over",
    hint: expect.stringContaining("granted only once"),
  });
  expect(log.find(({ objectId }) => objectId === "in_3")).toMatchObject({
    reason: "person_erased",
    hint: expect.stringContaining("was erased"),
  });
  expect(await w.balances("u")).toHaveLength(2);
});

it("the log has no correction for a right setup", async () => {
  const w = await paymentsWorld();
  for (const event of [
    completed({ ...namesUser, metadata: { pack: "Two", order: "7" } })(w),
    eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 300)),
    eventOf("charge.dispute.funds_withdrawn", w.nowS + 2, dispute("dp_1", "ch_1", "pi_1", 100, [-100])),
  ]) {
    await w.deliver(event);
  }
  const log: { outcome: string; reason: unknown; hint: unknown }[] = await w.events();
  expect(log.map(({ outcome, reason, hint }) => [outcome, reason, hint]).toSorted()).toEqual([
    ["granted", null, null],
    ["taken", null, null],
    ["taken", null, null],
  ]);
});
