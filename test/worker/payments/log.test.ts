import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { DAY_MS } from "../../../src/lib/time.ts";
import { logIgnored, oldStripeEventsPart } from "../../../src/payments/log.ts";
import { describedOperations } from "../../../src/reference/api-document.ts";
import { runPart } from "../../support/cron.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { charge, eventOf, session, type TestEvent } from "../../support/stripe-events.ts";
import { makeAdminCtx, makeCtx } from "../../support/world.ts";

const payout = (nowS: number) => eventOf("payout.paid", nowS, { id: "po_1", object: "payout" });

it("the log of Stripe's events cuts a long pack at a whole character", async () => {
  const w = await paymentsWorld();
  const pack = `a${"😀".repeat(249)}`;
  const lost = session("cs_1", { client_reference_id: "u", metadata: { pack }, payment_intent: "pi_1" });
  await w.deliver(eventOf("checkout.session.completed", w.nowS, lost));
  expect(await w.events()).toMatchObject([{ reason: "no_pack", asked: { pack: `a${"😀".repeat(199)}` } }]);
});

it("the reference's example of Stripe's event takes back credits of the example's payment", async () => {
  const w = await paymentsWorld();
  const { body, output } = describedOperations.find(({ id }) => id === "receiveStripeEvent")?.example() ?? {};
  const { paymentKey } = output as { paymentKey: string };
  const paid = { client_reference_id: "u", metadata: { pack: "Two" }, payment_intent: paymentKey };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", paid)));
  // The operation's schema has checked it.
  expect((await w.send(body as TestEvent)).body).toEqual(output);
});

it("the log of Stripe's events has each event's effect and reason, newest first, by outcome and page by page", async () => {
  const w = await paymentsWorld();
  const metadata = { pack: "Two" };
  const bought = session("cs_1", { client_reference_id: "u", metadata, payment_intent: "pi_1" });
  const lost = session("cs_2", { client_reference_id: "u", metadata: { pack: "gone" }, payment_intent: "pi_2" });
  const events = [
    eventOf("checkout.session.completed", w.nowS, bought),
    eventOf("checkout.session.completed", w.nowS, lost),
    payout(w.nowS),
    eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 300)),
    eventOf("charge.refunded", w.nowS + 1, charge("ch_3", "pi_3", 300)),
  ];
  for (const event of events) await w.deliver(event);
  const log = await w.events();
  const none = { reason: null, asked: null, hint: null };
  const sent = events.map(({ id }) => id);
  expect(
    log.toSorted((a: { eventId: string }, b: { eventId: string }) => sent.indexOf(a.eventId) - sent.indexOf(b.eventId)),
  ).toEqual([
    {
      ...{ eventId: events[0]?.id, type: "checkout.session.completed", at: expect.any(String), outcome: "granted" },
      ...{ reason: null, objectId: "cs_1", asked: { pack: "Two", user: "u" }, hint: null, paymentKey: "pi_1" },
    },
    {
      ...{ eventId: events[1]?.id, type: "checkout.session.completed", at: expect.any(String), outcome: "unmatched" },
      ...{ reason: "no_pack", objectId: "cs_2", asked: { pack: "gone", user: "u" }, paymentKey: "pi_2" },
      hint: expect.stringContaining("no pack with this id or name"),
    },
    {
      ...{ eventId: events[2]?.id, type: "payout.paid", at: expect.any(String), outcome: "ignored" },
      ...{ reason: "another_type", objectId: "po_1", asked: null, paymentKey: null },
      hint: expect.stringContaining("Purser does not use this type"),
    },
    {
      ...{ eventId: events[3]?.id, type: "charge.refunded", at: expect.any(String), outcome: "taken" },
      ...{ ...none, objectId: "ch_1", paymentKey: "pi_1" },
    },
    {
      ...{ eventId: events[4]?.id, type: "charge.refunded", at: expect.any(String), outcome: "remembered" },
      ...{ ...none, objectId: "ch_3", paymentKey: "pi_3" },
    },
  ]);
  expect(await w.events("&outcome=unmatched")).toEqual(
    log.filter(({ reason }: { reason: string }) => reason === "no_pack"),
  );
  const paged: unknown[] = [];
  for (let cursor = ""; ; ) {
    const { body } = await w.admin("GET", `${w.path}/stripe/events?mode=live&limit=2${cursor}`, {
      key: env.ADMIN_TOKEN,
    });
    paged.push(...body.events);
    if (body.nextCursor === null) break;
    cursor = `&cursor=${body.nextCursor}`;
  }
  expect(paged).toEqual(log);
});

it("the log of Stripe's events keeps an event's first effect if it is delivered again, unless the new effect is larger", async () => {
  const w = await paymentsWorld();
  const bought = session("cs_1", { client_reference_id: "u", metadata: { pack: "later" }, payment_intent: "pi_1" });
  const event = eventOf("checkout.session.completed", w.nowS, bought);
  expect(await w.deliver(event)).toBe("unmatched");
  expect(await w.deliver(event)).toBe("ignored");
  expect(await w.events()).toMatchObject([{ outcome: "unmatched", reason: "no_pack" }]);
  const packs = `${w.path}/packs`;
  await w.admin("POST", packs, {
    key: env.ADMIN_TOKEN,
    body: { packName: "later", items: [{ amount: 1, unit: "count" }] },
  });
  expect(await w.deliver(event)).toBe("granted");
  expect(await w.deliver(event)).toBe("ignored");
  expect(await w.events()).toMatchObject([{ outcome: "granted", reason: null, hint: null }]);
});

it("the log of Stripe's events has signed events that were rejected: of another mode, thin, and malformed", async () => {
  const w = await paymentsWorld();
  const thin = {
    id: "evt_thin",
    object: "v2.core.event",
    type: "v1.billing.meter.no_meter_found",
    created: "2026-01-15T12:00:00Z",
  };
  const sent = [
    { ...payout(w.nowS), livemode: false },
    { ...thin, related_object: { id: "mtr_1", type: "billing.meter", url: "/v1/x" } },
    eventOf("checkout.session.completed", w.nowS, { id: "cs_1", object: "checkout.session" }),
  ];
  for (const event of sent) expect((await w.send(event as never)).status).toBe(400);
  expect((await w.events()).toReversed()).toMatchObject([
    { outcome: "ignored", reason: "livemode", objectId: "po_1", hint: expect.stringContaining("`/test`") },
    { outcome: "ignored", reason: "thin_event", objectId: "mtr_1", hint: expect.stringContaining("Snapshot") },
    { outcome: "ignored", reason: "shape", objectId: "cs_1", hint: expect.stringContaining("mode is required") },
  ]);
});

it("the log of Stripe's events shows the last event without a valid signature and why it was rejected, recorded at most once a minute", async () => {
  const w = await paymentsWorld();
  const read = async () => (await w.admin("GET", `${w.path}/stripe?mode=live`, { key: env.ADMIN_TOKEN })).body.refused;
  const send = (headers: Record<string, string>) =>
    w.call("POST", `/api/v1/stripe/${w.app.appId}/live`, { body: JSON.stringify(payout(w.nowS)), headers });
  expect(await read()).toBeNull();
  expect((await send({})).status).toBe(400);
  const first = { at: new Date(w.clock.ms).toISOString(), reason: "header_missing" };
  expect(await read()).toEqual(first);
  w.clock.advance(59_999);
  const unsigned = { "stripe-signature": `t=${Math.floor(w.clock.ms / 1_000)},v1=${"0".repeat(64)}` };
  expect((await send(unsigned)).status).toBe(400);
  expect(await read()).toEqual(first);
  w.clock.advance(1);
  expect((await send(unsigned)).status).toBe(400);
  expect(await read()).toEqual({ at: new Date(w.clock.ms).toISOString(), reason: "wrong_secret" });
  expect(await w.events()).toEqual([]);
});

it("the log of Stripe's events stores neither the user nor the pack that an ignored event names, and writes two rows for it", async () => {
  const w = await paymentsWorld();
  const named = { client_reference_id: "u", metadata: { pack: "Two" }, payment_status: "unpaid" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", named)));
  expect(await w.events()).toMatchObject([
    {
      outcome: "ignored",
      reason: "unpaid",
      asked: null,
      hint: expect.stringContaining("async"),
    },
  ]);
  const { environments } = w.app;
  const { meta } = await env.DB.prepare(
    `INSERT INTO stripe_log (environment_id, event_id, type, at_ms, ordinal, outcome, reason) VALUES (?, 'evt_x', 't', 1, 0, 'ignored', 'shape')`,
  )
    .bind(environments.live.id)
    .run();
  expect(meta.rows_written).toBe(2);
});

it("the log of Stripe's events keeps a limited number of ignored events, for 30 days, and all other events", async () => {
  const w = await paymentsWorld();
  const { clock, app } = w;
  const bought = session("cs_1", { client_reference_id: "u", metadata: { pack: "Two" }, payment_intent: "pi_1" });
  await w.deliver(eventOf("checkout.session.completed", w.nowS, bought));
  const entry = { type: "t", reason: "shape", objectId: null, asked: { pack: null, user: null } } as const;
  const ctx = makeCtx(app.environments.live, clock);
  for (let n = 1; n <= 7; n++) {
    await logIgnored(ctx, { ...entry, eventId: `evt_n${n}`, hint: null, paymentKey: null }, 3);
  }
  const ids = async () => (await w.events()).map(({ eventId }: { eventId: string }) => eventId);
  expect((await ids()).slice(0, 3)).toEqual(["evt_n7", "evt_n6", "evt_n5"]);
  expect(await ids()).toHaveLength(4);
  clock.advance(30 * DAY_MS);
  await runPart(oldStripeEventsPart.work, makeAdminCtx(clock));
  expect(await ids()).toHaveLength(4);
  clock.advance(1_000);
  await runPart(oldStripeEventsPart.work, makeAdminCtx(clock));
  expect(await w.events()).toMatchObject([{ outcome: "granted" }]);
});

const intent = (fields: object) => ({
  ...{ id: "pi_1", object: "payment_intent", amount: 1250, amount_received: 1250, currency: "usd", invoice: null },
  metadata: { pack: "Wallet", user: "u" },
  ...fields,
});

it("a payment intent that names a pack and a user grants once together with a session, by the amount of whichever comes first", async () => {
  for (const first of ["intent", "session"] as const) {
    const w = await paymentsWorld();
    const fields = { client_reference_id: "u", metadata: { pack: "Wallet" }, payment_intent: "pi_1" };
    const both = {
      intent: eventOf("payment_intent.succeeded", w.nowS, intent({})),
      session: eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)),
    };
    const order = first === "intent" ? [both.intent, both.session] : [both.session, both.intent];
    const outcomes: string[] = [];
    for (const event of [...order, ...order]) outcomes.push(await w.deliver(event));
    expect(outcomes).toEqual(["granted", "remembered", "ignored", "ignored"]);
    expect(await w.balances("u")).toEqual([["cents", first === "intent" ? 1250 : 1000, "active"]]);
    expect(await w.payments()).toMatchObject([{ paymentKey: "pi_1", status: "granted", userId: "u" }]);
  }
});

it("a payment intent that names a pack and a user is refunded by the share of the received amount", async () => {
  const w = await paymentsWorld();
  await w.deliver(eventOf("payment_intent.succeeded", w.nowS, intent({})));
  expect(await w.payments()).toMatchObject([{ captured: 1250, currency: "usd" }]);
  const back = { ...charge("ch_1", "pi_1", 625), amount: 1250, amount_captured: 1250 };
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 1, back))).toBe("taken");
  expect(await w.balances("u")).toEqual([["cents", 625, "active"]]);
});

it("a payment intent that names a pack and a user is ignored as another product's if one of the two is missing", async () => {
  const w = await paymentsWorld();
  for (const metadata of [{}, { pack: "Wallet" }, { user: "u" }, { pack: "", user: "u" }]) {
    expect(await w.deliver(eventOf("payment_intent.succeeded", w.nowS, intent({ metadata })))).toBe("ignored");
  }
  expect(await w.payments()).toEqual([]);
});

it("a payment intent that names a pack and a user grants a pack with items as many times as it says", async () => {
  const w = await paymentsWorld();
  const metadata = { pack: "Two", user: "u", quantity: "7" };
  await w.deliver(eventOf("payment_intent.succeeded", w.nowS, intent({ metadata })));
  expect(await w.events()).toMatchObject([{ outcome: "granted", hint: null }]);
  expect((await w.balances("u")).map(([, amount]) => amount)).toEqual([2800, 35]);
});
