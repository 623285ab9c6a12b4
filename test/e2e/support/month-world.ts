import { PurserAdmin } from "../../../clients/typescript/src/admin.ts";
import { Purser } from "../../../clients/typescript/src/index.ts";
import { DAY_MS } from "../../../src/lib/time.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";
import { stripeSignature } from "../../support/stripe-signature.ts";
import { ADMIN_TOKEN, type ServedApp, type Server } from "./server.ts";

// A month of a small AI product. It passes in a test environment, so that every grant, payment and debit has its own day.

const SIGNING_SECRET = "whsec_of_a_month_0000000001";
const PLANS = { Hobby: 500, Pro: 2_000, Scale: 10_000 } as const;
type Plan = keyof typeof PLANS;

const CHAT = (input: number, output: number) => ({ input, output });
/** Who buys which plan on which day, and the events of each later day. */
const CUSTOMERS = [
  { userId: "hedy", plan: "Hobby", day: 1, model: "large-2", eventsADay: 11 },
  { userId: "radia", plan: "Scale", day: 2, model: "large-2", eventsADay: 6 },
  { userId: "edsger", plan: "Pro", day: 3, model: "small-3", eventsADay: 4 },
  { userId: "barbara", plan: "Hobby", day: 4, model: "small-3", eventsADay: 1 },
  { userId: "alan", plan: "Pro", day: 5, model: "small-3", eventsADay: 2 },
  { userId: "harbor", plan: "Scale", day: 6, model: "large-2", eventsADay: 3 },
] as const satisfies readonly { plan: Plan; [field: string]: unknown }[];
const TEAM = "harbor";
const MEMBERS = ["joan", "katherine"] as const;
export const LEAVER = "leaver";

type Json = Readonly<Record<string, unknown>>;
type SetPrices = Parameters<PurserAdmin["setPrices"]>[0];
type Event = Parameters<Purser["recordUsageEvents"]>[0][number];

export interface MonthWorld {
  readonly app: ServedApp;
  readonly purser: Purser;
  readonly admin: PurserAdmin;
  /** The application and mode of administration calls. */
  readonly of: { readonly appId: string; readonly mode: "test" };
  /** The moment at a day and hour of the month: 1 is its first day. */
  readonly at: (day: number, hour?: number) => string;
  /** The month as `2026-12`. */
  readonly month: string;
}

/** Lets the month pass up to the evening of its last day. */
export async function liveMonth(server: Server): Promise<MonthWorld> {
  const app = await server.makeApp();
  const purser = new Purser({ url: server.url, key: app.keys.sk_test });
  const admin = new PurserAdmin({ url: server.url, key: ADMIN_TOKEN });
  const { appId } = app;
  const of = { appId, mode: "test" } as const;

  const today = new Date();
  const firstMs = Date.UTC(today.getUTCFullYear(), today.getUTCMonth() + 1);
  const days = new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() + 2, 0)).getUTCDate();
  const at = (day: number, hour = 0) => new Date(firstMs + (day - 1) * DAY_MS + hour * 3_600_000).toISOString();
  let events = 0;
  const pay = async (type: string, time: string, object: Json) => {
    const event = { ...eventOf(type, Date.parse(time) / 1_000, object), livemode: false };
    const payload = JSON.stringify({ ...event, id: `evt_month_${++events}` });
    const signature = await stripeSignature(payload, SIGNING_SECRET, Math.floor(Date.now() / 1_000));
    const answer = await fetch(`${server.url}/api/v1/stripe/${app.appId}/test`, {
      method: "POST",
      headers: { "stripe-signature": signature },
      body: payload,
    });
    if (!answer.ok) throw new Error(`Stripe's event was answered ${answer.status} ${await answer.text()}`);
  };

  for (const [packName, amount] of Object.entries(PLANS)) {
    await admin.createPack({ appId, packName, defaultExpiryDays: 45, items: [{ amount, unit: "cents" }] });
  }
  await admin.createPack({ appId, packName: "Goodwill", items: [], unit: "cents" });
  await admin.createPack({
    ...{ appId, packName: "Studio" },
    items: [
      { amount: 700, unit: "cents" },
      { amount: 90, unit: "seconds" },
    ],
  });
  await admin.setUnitNames({ ...of, names: { cents: { one: "credit", other: "credits" } } });
  await admin.setStripe({ ...of, setting: { signingSecrets: [SIGNING_SECRET], prices: [] } });
  const million = (amount: number) => ({ amount, units: 1_000_000 });
  const rules: SetPrices["rules"] = [
    { event: "chat", model: "large-*", unit: "cents", per: { input: million(400), output: million(2_000) } },
    { event: "chat", model: "small-*", unit: "cents", per: { input: million(130), output: million(650) } },
    { event: "image", unit: "cents", perEvent: 6 },
  ];
  const costs: NonNullable<SetPrices["costs"]> = [
    { event: "chat", model: "large-*", per: { input: million(300), output: million(1_500) } },
    { event: "chat", model: "small-*", per: { input: million(100), output: million(500) } },
  ];
  await admin.setPrices({ ...of, rules, costs, note: "The first list" });
  const limit = { ...of, unit: "cents" } as const;
  await admin.createUsageLimit({ ...limit, name: "A day", amount: 100, every: "day", timeZone: "Europe/Berlin" });
  await admin.createUsageLimit({ ...limit, name: "A member's month", amount: 200, every: "month", per: "member" });
  await admin.createAlert({ ...of, name: "Nearly used up", unit: "cents", below: { amount: 100 } });
  // It answers 404.
  await admin.createWebhook({ ...of, url: `${server.url}/order-system`, description: "Order system" });

  const dayOf = (customer: (typeof CUSTOMERS)[number], day: number) =>
    Array.from({ length: customer.eventsADay }, (_, n) => ({
      eventId: `${customer.userId}-${day}-${n}`,
      userId: customer.userId,
      ...(customer.userId === TEAM ? { memberId: MEMBERS[n % MEMBERS.length] } : {}),
      ...(n === 5
        ? { event: "image", meters: { images: 1 } }
        : { event: "chat", model: customer.model, meters: CHAT(700 + 100 * n + 10 * day, 300 + 7 * day) }),
    }));
  for (let day = 1; day <= days; day++) {
    await admin.setTestClock({ appId, now: at(day, 12) });
    for (const { userId, plan } of CUSTOMERS.filter((each) => each.day === day)) {
      const bought = { client_reference_id: userId, metadata: { pack: plan }, payment_intent: `pi_${userId}` };
      const paid = { amount_subtotal: PLANS[plan], amount_total: PLANS[plan], livemode: false };
      await pay("checkout.session.completed", at(day, 12), session(`cs_${userId}`, { ...bought, ...paid }));
    }
    if (day === 9) await pay("charge.refunded", at(day, 12), charge("ch_alan", "pi_alan", 500));
    if (day === 11) {
      await purser.grantCredits({ userId: "barbara", packId: "Goodwill", quantity: 250, externalRef: "order-11" });
    }
    const usage = CUSTOMERS.filter((each) => each.day < day).flatMap((each) => dayOf(each, day));
    if (usage.length > 0) await purser.recordUsageEvents(usage);
  }
  await admin.setTestClock({ appId, now: at(days, 20) });
  // One member has used up the month, and one customer the day.
  const large = (userId: string, n: number, more: Partial<Event>): Event => ({
    ...{ eventId: `last-${userId}-${n}`, userId, event: "chat", model: "large-2", meters: CHAT(0, 12_000) },
    ...more,
  });
  // Usage that has already happened goes above a limit. After that, the limit rejects.
  const last = Array.from({ length: 8 }, (_, n) => n).flatMap((n) => [
    large(TEAM, n, { memberId: "joan", meters: CHAT(0, 15_000), onShortage: n < 5 ? "partial" : "reject" }),
    large("edsger", n, { onShortage: n < 5 ? "partial" : "reject" }),
  ]);
  await purser.recordUsageEvents(last);
  await purser.recordUsageEvents([large(LEAVER, 0, { onShortage: "partial" })]);
  await purser.grantCredits({ userId: LEAVER, packId: "Goodwill", quantity: 40 });
  // An order that somebody granted to the wrong customer.
  await purser.grantCredits({ userId: "barbara", packId: "Studio", externalRef: "order-oops" });
  await server.cron();
  return { app, purser, admin, of, at, month: at(1).slice(0, 7) };
}
