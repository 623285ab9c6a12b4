import { env } from "cloudflare:workers";
import { unmatchedPart } from "../../src/payments/report-unmatched.ts";
import { expectOk, makeCronRun, type Operation, type Scene } from "./operation.ts";
import { PRICES } from "./payment-story.ts";
import { newStripeSetting, signatureOf } from "./payments.ts";
import { dispute } from "./stripe-disputes.ts";
import { charge, eventOf, paymentIntent, session, type TestEvent } from "./stripe-events.ts";
import { invoice, invoicePayment } from "./stripe-invoices.ts";
import { makeEndpoint } from "./webhooks.ts";
import { type Answer, newApp, newOpenAmountPack } from "./world.ts";

/** Creates an application for the scene, because Stripe's last event is stored for each application. Its objects have the user's name. */
async function openShop(scene: Scene, isNoted = true) {
  const { userId, clock } = scene;
  const { app, inserts } = await newApp({ name: userId });
  const { appId } = app;
  const pack = newOpenAmountPack(appId, userId, "cents");
  const prices = [{ price: PRICES.wallet, packId: userId, quantity: 250.5 }];
  await env.DB.batch([...inserts, pack.insert, await newStripeSetting(app.environments.live, prices)]);
  const admin = (method: string, path: string, body: object): Promise<Answer> =>
    scene.send(method, `/api/v1/admin/apps/${appId}${path}`, body, env.ADMIN_TOKEN);
  const nowS = Math.floor(clock.ms / 1_000);
  const deliver = async (event: TestEvent): Promise<Answer> => {
    const body = JSON.stringify({ ...event, id: `evt_${event.type}_${userId}` });
    const headers = { "stripe-signature": await signatureOf(body, clock) };
    return scene.send("POST", `/api/v1/stripe/${appId}/live`, body, undefined, headers);
  };
  // Stripe's last event is stored once a minute. This stores it now, so that the tested call does not.
  const ignored = eventOf("payout.paid", nowS, { id: "po_1", object: "payout" });
  if (isNoted) await expectOk(deliver(ignored));
  const [pi, ch, inv] = [`pi_${userId}`, `ch_${userId}`, `in_${userId}`];
  const bought = (pack: string) =>
    session(`cs_${userId}`, { client_reference_id: userId, metadata: { pack }, payment_intent: pi });
  const bill = { metadata: { user: userId }, lines: [{ id: "il_1", price: PRICES.wallet }] };
  return {
    ...{ live: app.environments.live, deliver, ignored },
    set: (setting: object) => admin("PUT", "/stripe", { mode: "live", setting }),
    settle: () => admin("POST", `/payments/${pi}/settle`, { mode: "live", userId, packId: userId, quantity: 12.5 }),
    paid: eventOf("checkout.session.completed", nowS, bought(userId)),
    paidForNothing: eventOf("checkout.session.completed", nowS, bought("gone")),
    received: eventOf(
      "payment_intent.succeeded",
      nowS,
      paymentIntent(pi, { metadata: { pack: userId, user: userId } }),
    ),
    billed: eventOf("invoice.paid", nowS, invoice(inv, bill)),
    tied: eventOf("invoice_payment.paid", nowS, invoicePayment(`inpay_${userId}`, inv, pi)),
    refunded: eventOf("charge.refunded", nowS + 1, charge(ch, pi, 300)),
    withdrawn: eventOf("charge.dispute.funds_withdrawn", nowS + 2, dispute(`dp_${userId}`, ch, pi, 1000, [-1000])),
    reinstated: eventOf(
      "charge.dispute.funds_reinstated",
      nowS + 3,
      dispute(`dp_${userId}`, ch, pi, 1000, [-1000, 1000]),
    ),
  };
}
type Shop = Awaited<ReturnType<typeof openShop>>;
type Event = { [Key in keyof Shop]: Shop[Key] extends TestEvent ? Key : never }[keyof Shop];

/** Delivers an event after some others. */
const ofStripe = (name: string, event: Event, before: readonly Event[] = []): Operation => ({
  name: `Stripe's event ${name}`,
  isIdempotent: true,
  hasNoMemory: true,
  tellsWhatItDid: true,
  prepare: async (scene) => {
    const shop = await openShop(scene, event !== "ignored");
    for (const earlier of before) {
      await expectOk(shop.deliver(shop[earlier]));
      // The clock decides which of two grants was first.
      scene.clock.advance(1);
    }
    return () => shop.deliver(shop[event]);
  },
});

export const paymentOperations: readonly Operation[] = [
  ofStripe("that grants", "paid"),
  ofStripe("of a payment intent that grants", "received"),
  ofStripe("of a payment intent whose session has granted", "received", ["paid"]),
  ofStripe("that grants a payment that was partly refunded before", "paid", ["refunded"]),
  ofStripe("that takes back everything", "withdrawn", ["paid", "refunded"]),
  ofStripe("that restores credits", "reinstated", ["paid", "withdrawn"]),
  ofStripe("that joins two payments and takes back the later grant", "tied", ["paid", "billed"]),
  ofStripe("that grants nothing", "paidForNothing"),
  ofStripe("that is ignored and stored as the last event", "ignored"),
  {
    name: "settlement of a payment",
    isIdempotent: true,
    hasNoMemory: true,
    prepare: async (scene) => {
      const { deliver, paidForNothing, refunded, settle } = await openShop(scene);
      for (const event of [paidForNothing, refunded]) await expectOk(deliver(event));
      return settle;
    },
  },
  {
    name: "change of the Stripe setting",
    isIdempotent: true,
    hasNoMemory: true,
    prepare: async (scene) => {
      const { set } = await openShop(scene);
      return () => set({ currency: "eur", prices: [{ price: PRICES.period, packId: scene.userId, quantity: 1 }] });
    },
  },
  {
    name: "cron that reports a payment that granted nothing",
    isIdempotent: true,
    hasNoMemory: true,
    hasNoCaller: true,
    prepare: async (scene) => {
      // Lets the cron first report the payments that other tests left.
      scene.clock.advance(700_000);
      await scene.cron(unmatchedPart);
      const { live, deliver, paidForNothing } = await openShop(scene);
      await makeEndpoint(live, null, scene.clock.ms);
      await expectOk(deliver(paidForNothing));
      scene.clock.advance(600_000);
      return makeCronRun(scene, unmatchedPart);
    },
  },
];
