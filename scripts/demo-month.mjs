/**
 * A month of a small AI product, for the first look at the dashboard: plans, prices, people who buy and use, limits, a refund, a
 * failing endpoint. The same numbers in every database.
 */
import Stripe from "stripe";

const DAY_MS = 86_400_000;
const PLANS = [
  { packName: "Hobby", defaultExpiryDays: 31, items: [{ amount: 500, unit: "cents" }] },
  { packName: "Pro", defaultExpiryDays: 31, items: [{ amount: 2_000, unit: "cents" }] },
  { packName: "Scale", defaultExpiryDays: 31, items: [{ amount: 10_000, unit: "cents" }] },
];
const PRICE_CENTS = { Hobby: 500, Pro: 2_000, Scale: 9_900 };

/** Who bought which plan, how many days ago, and how many events each sends a day. */
const CUSTOMERS = [
  { userId: "user_barbara", plan: "Hobby", daysAgo: 27, eventsADay: 2 },
  { userId: "user_edsger", plan: "Pro", daysAgo: 26, eventsADay: 4 },
  { userId: "user_hedy", plan: "Hobby", daysAgo: 24, eventsADay: 9 },
  { userId: "user_alan", plan: "Pro", daysAgo: 21, eventsADay: 3 },
  { userId: "user_radia", plan: "Scale", daysAgo: 18, eventsADay: 6 },
  { userId: "user_donald", plan: "Hobby", daysAgo: 13, eventsADay: 1 },
  { userId: "user_frances", plan: "Pro", daysAgo: 9, eventsADay: 5 },
  { userId: "user_niklaus", plan: "Hobby", daysAgo: 4, eventsADay: 2 },
];
/** The customer who gets half of the price back. */
const REFUNDED = "user_alan";

/** A team that pays for its members. */
const TEAM = { userId: "org_harbor", plan: "Scale", daysAgo: 15, eventsADay: 6 };
const MEMBERS = ["user_joan", "user_katherine", "user_margaret"];

/** One version now, and a cheaper one that comes next week. */
const priceLists = (nowMs) => {
  const million = (amount) => ({ amount, units: 1_000_000 });
  const rules = (markupPercent) => [
    {
      event: "chat.*",
      model: "large-*",
      unit: "cents",
      per: {
        input: million(3 * markupPercent),
        cacheRead: million((3 * markupPercent) / 10),
        output: million(15 * markupPercent),
      },
    },
    {
      event: "chat.*",
      model: "small-*",
      unit: "cents",
      per: {
        input: million(markupPercent),
        cacheRead: million(markupPercent / 10),
        output: million(5 * markupPercent),
      },
    },
    { event: "image", unit: "cents", perEvent: 6 },
  ];
  const [large, small, image] = rules(100).map(({ unit, ...rule }) => rule);
  const costs = [large, small, { ...image, perEvent: 4 }];
  return [
    { rules: rules(130), costs, note: "The first list" },
    { rules: rules(120), costs, effectiveAt: new Date(nowMs + 7 * DAY_MS).toISOString(), note: "Cheaper chats" },
  ];
};

/** The same numbers from 0 to 1 at every call with the same seed. */
function randomFrom(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function usageOf({ userId, daysAgo, eventsADay }, run, nowMs) {
  const random = randomFrom(daysAgo * 1_000 + eventsADay);
  const model = eventsADay > 4 ? "large-2" : "small-3";
  return Array.from({ length: daysAgo * eventsADay }, (_, index) => {
    const input = 500 + Math.floor(random() * 6_000);
    const chat = {
      event: "chat.completion",
      model,
      meters: { input, cacheRead: Math.floor(input * random()), output: 100 + Math.floor(random() * 1_500) },
    };
    const image = { event: "image", meters: { images: 1 } };
    return {
      eventId: `month-${userId}-${index}-${run}`,
      userId,
      ...(index % 11 === 10 ? image : chat),
      occurredAt: new Date(nowMs - daysAgo * DAY_MS + ((index + random()) * DAY_MS) / eventsADay).toISOString(),
    };
  }).filter(({ occurredAt }) => Date.parse(occurredAt) < nowMs);
}

/** The first member uses half of the team's credits, the others a quarter each. */
const memberOf = (index) => MEMBERS[Math.max(0, (index % 4) - 1)];

const usageOfTeam = (run, nowMs) =>
  usageOf(TEAM, run, nowMs).map((event, index) => ({
    ...event,
    memberId: memberOf(index),
    // Usage that has already happened goes above the limit of members. The limit rejects other usage after that.
    onShortage: index % 8 === 5 ? "partial" : "reject",
  }));

/** One of Stripe's events, as a text with its signature. */
function stripeEvent(secret, type, createdMs, object) {
  const created = Math.floor(createdMs / 1_000);
  const event = { id: `evt_${object.id}`, object: "event", type, created, livemode: true, data: { object } };
  const payload = JSON.stringify(event);
  return { payload, signature: Stripe.webhooks.generateTestHeaderString({ payload, secret }) };
}

async function deliver(url, appId, { payload, signature }) {
  const headers = { "stripe-signature": signature };
  const response = await fetch(`${url}/api/v1/stripe/${appId}/live`, { method: "POST", headers, body: payload });
  if (!response.ok) throw new Error(`Stripe's event was answered ${response.status}: ${await response.text()}`);
  return response.json();
}

/** Sets up the plans, prices, limit of members, alert and endpoint. Returns the ids of the plans' packs. */
export async function makePlans(url, admin, at, { facts, once }) {
  const nowMs = facts.startedMs;
  const existing = await admin("GET", `${at}/packs`);
  const ids = {};
  for (const plan of PLANS) {
    ids[plan.packName.toLowerCase()] = await once(`pack ${plan.packName}`, async () => {
      const found = existing.packs.find(({ packName }) => packName === plan.packName);
      return (found ?? (await admin("POST", `${at}/packs`, plan))).packId;
    });
  }
  for (const [index, list] of priceLists(nowMs).entries()) {
    await once(`prices ${index}`, () => admin("PUT", `${at}/prices`, { mode: "live", ...list }));
  }
  const names = { cents: { one: "credit", other: "credits" } };
  await once("unit names", () => admin("PUT", `${at}/unit-names`, { mode: "live", names }));
  const alert = { mode: "live", name: "Nearly used up", unit: "cents", below: { amount: 100 } };
  await once("alert", async () => {
    const { alerts } = await admin("GET", `${at}/alerts?mode=live`);
    return (alerts[0] ?? (await admin("POST", `${at}/alerts`, alert))).alertId;
  });
  const limit = { mode: "live", name: "A member's month", unit: "cents", amount: 120, every: "month", per: "member" };
  await once("member limit", async () => {
    const { limits } = await admin("GET", `${at}/usage-limits?mode=live`);
    const existing = limits.find(({ name }) => name === limit.name);
    return (existing ?? (await admin("POST", `${at}/usage-limits`, limit))).limitId;
  });
  // It answers 404, so the page of webhooks shows how attempts fail.
  const endpoint = { mode: "live", url: `${url}/order-system`, description: "Order system" };
  await once("endpoint", async () => {
    const { webhooks } = await admin("GET", `${at}/webhooks?mode=live`);
    return (webhooks[0] ?? (await admin("POST", `${at}/webhooks`, endpoint))).webhookId;
  });
  return ids;
}

/** The operators' notes on some customers. */
const NOTES = [
  [REFUNDED, "Cancelled Pro after two days: too many credits for one person. Half is refunded at Stripe. Offer Hobby."],
  [
    "user_barbara",
    "Lost an afternoon in the outage and was kind about it. 250 credits as goodwill. Ask how it goes in a month.",
  ],
  [
    TEAM.userId,
    "Three people share the plan. Ask Joan before anybody changes the limit of members.\nThey want an invoice a year from spring.",
  ],
];

/** Writes the operators' notes. `operator` reads a page of the dashboard, and sends a form of it. */
export async function writeNotes(appId, operator, { once }) {
  for (const [userId, text] of NOTES) {
    await once(`note on ${userId}`, async () => {
      const page = await operator.read(`/admin/apps/${appId}/live/users?userId=${userId}`);
      // An interrupted seeding may have sent it.
      if (page.includes(text)) return;
      await operator.send(`/admin/apps/${appId}/live/users/notes`, page, { userId, text });
    });
  }
}

/** Lets the customers pay at Stripe and use what they bought. */
export async function liveMonth(url, post, appId, secret, { facts, once }) {
  const { run, startedMs: nowMs } = facts;
  for (const { userId, plan, daysAgo } of [...CUSTOMERS, TEAM]) {
    const paidMs = nowMs - daysAgo * DAY_MS;
    const name = `${userId.slice(userId.indexOf("_") + 1)}${run}`;
    const price = PRICE_CENTS[plan];
    const session = {
      id: `cs_${name}`,
      object: "checkout.session",
      mode: "payment",
      payment_status: "paid",
      payment_intent: `pi_${name}`,
      amount_subtotal: price,
      amount_total: price,
      currency: "usd",
      client_reference_id: userId,
      metadata: { pack: plan },
    };
    await once(`payment of ${userId}`, () =>
      deliver(url, appId, stripeEvent(secret, "checkout.session.completed", paidMs, session)),
    );
    if (userId !== REFUNDED) continue;
    const charge = {
      id: `ch_${name}`,
      object: "charge",
      payment_intent: `pi_${name}`,
      amount_captured: price,
      amount_refunded: price / 2,
      currency: "usd",
    };
    await once(`refund of ${userId}`, () =>
      deliver(url, appId, stripeEvent(secret, "charge.refunded", paidMs + 2 * DAY_MS, charge)),
    );
  }
  // A payment that names a pack which nobody made: the list of payments says how to settle it.
  const lost = {
    id: `cs_lost${run}`,
    object: "checkout.session",
    mode: "payment",
    payment_status: "paid",
    payment_intent: `pi_lost${run}`,
    amount_subtotal: 2_000,
    amount_total: 2_000,
    currency: "usd",
    client_reference_id: "user_ken",
    metadata: { pack: "Pro 2024" },
  };
  await once("lost payment", () =>
    deliver(url, appId, stripeEvent(secret, "checkout.session.completed", nowMs - DAY_MS, lost)),
  );
  const goodwill = {
    userId: "user_barbara",
    packId: "Top-up",
    quantity: 250,
    source: "grant",
    externalRef: `goodwill-${run}`,
    notes: "Outage",
  };
  await once("goodwill", () => post("/api/v1/credits/grant", goodwill));
  const events = [...CUSTOMERS.flatMap((customer) => usageOf(customer, run, nowMs)), ...usageOfTeam(run, nowMs)];
  events.sort((a, b) => Date.parse(a.occurredAt) - Date.parse(b.occurredAt));
  // Some are rejected, because a customer has used up the credits: the page of rejections shows them.
  for (let from = 0; from < events.length; from += 100) {
    await once(`month from ${from}`, async () => {
      await post("/api/v1/usage/events", events.slice(from, from + 100));
    });
  }
}
