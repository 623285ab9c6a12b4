/**
 * Six weeks of a small AI product, for the first look at the dashboard: plans, prices, people who buy and use, a team, limits, a
 * refund, a failing endpoint. Everything happens at its own time. The same numbers in every database.
 */
import Stripe from "stripe";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** More than a month, so that it has the end of a month, expired credits, and a time before the last thirty days. */
export const DAYS = 42;

const EXPIRY_DAYS = 31;
const plan = (packName, amount) => ({ packName, defaultExpiryDays: EXPIRY_DAYS, items: [{ amount, unit: "cents" }] });
const PLANS = [plan("Hobby", 500), plan("Pro", 1_500), plan("Scale", 4_000)];
const PRICE_CENTS = { Hobby: 500, Pro: 1_400, Scale: 3_500 };

/** Who buys which plan on which days, and about how many events each sends a day. */
const CUSTOMERS = [
  { userId: "user_barbara", plan: "Hobby", days: [0.4, 31.2], eventsADay: 1.5 },
  { userId: "user_edsger", plan: "Pro", days: [1.7, 32.9], eventsADay: 1.5 },
  { userId: "user_hedy", plan: "Hobby", days: [3.3, 12.6, 21.5, 30.4, 38.8], eventsADay: 2.5, model: "large-2" },
  { userId: "user_radia", plan: "Scale", days: [5.5, 36.7], eventsADay: 3.5 },
  { userId: "user_alan", plan: "Pro", days: [14.6], eventsADay: 2, lastDay: 16 },
  { userId: "user_donald", plan: "Hobby", days: [13.8], eventsADay: 0.7 },
  { userId: "user_frances", plan: "Pro", days: [16.3, 34.6], eventsADay: 3 },
  { userId: "user_lynn", plan: "Pro", days: [19.1], eventsADay: 1.5 },
  { userId: "user_john", plan: "Hobby", days: [23.4], eventsADay: 1.5 },
  { userId: "user_adele", plan: "Hobby", days: [26.9], eventsADay: 3 },
  { userId: "user_leslie", plan: "Pro", days: [28.2], eventsADay: 2.5 },
  { userId: "user_niklaus", plan: "Hobby", days: [33.5], eventsADay: 4 },
  { userId: "user_dana", plan: "Pro", days: [37.3], eventsADay: 3 },
  { userId: "user_tony", plan: "Hobby", days: [39.9], eventsADay: 4 },
];
/** The customer who gets half of the price back. */
const REFUNDED = "user_alan";
/** A team that pays for its members. */
const TEAM = { userId: "org_harbor", plan: "Scale", days: [8.2, 39.3], eventsADay: 4.5 };
const MEMBERS = ["user_joan", "user_katherine", "user_margaret"];
/** Who use the free tier. The last one sends many messages in the last hour. */
const FREE = [
  { userId: "user_ken", days: [2.1], eventsADay: 2 },
  { userId: "user_shafi", days: [18.6], eventsADay: 1 },
  { userId: "user_tim", days: [35.4], eventsADay: 1 },
];
const MESSAGES_A_DAY = 30;

/** One version from the first day, and a cheaper one that comes next week. */
function priceLists({ startedMs }) {
  const million = (amount) => ({ amount, units: 1_000_000 });
  const per = (input, output) => ({ input: million(input), cacheRead: million(input / 10), output: million(output) });
  const rules = (markupPercent) => [
    { event: "chat.*", model: "large-*", unit: "cents", per: per(3 * markupPercent, 15 * markupPercent) },
    { event: "chat.*", model: "small-*", unit: "cents", per: per(markupPercent, 5 * markupPercent) },
    { event: "image", unit: "cents", perEvent: 6 },
  ];
  const [large, small, image] = rules(100).map(({ unit, ...rule }) => rule);
  const costs = [large, small, { ...image, perEvent: 4 }];
  const effectiveAt = new Date(startedMs + 7 * DAY_MS).toISOString();
  return [
    { day: 0, rules: rules(130), costs, note: "The first list" },
    { day: DAYS - 3, rules: rules(120), costs, effectiveAt, note: "Cheaper chats" },
  ];
}

/** The same numbers from 0 to 1 at every call with the same seed. */
function randomFrom(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The times of a user's events, as days of the demonstration. Every week has two days with less. */
function timesOf({ days: [firstDay], eventsADay, lastDay = DAYS }, random) {
  const times = [];
  for (let day = firstDay; day < lastDay; day++) {
    const isWeekend = Math.floor(day) % 7 > 4;
    const count = Math.floor(eventsADay * (isWeekend ? 0.4 : 1) * (0.7 + 0.6 * random()) + random());
    for (let n = 0; n < count; n++) times.push(day + (n + random()) / count);
  }
  return times.filter((time) => time < lastDay);
}

function chatOrImage(model, index, random) {
  if (index % 11 === 10) return { event: "image", meters: { images: 1 } };
  const input = 15_000 + Math.floor(random() * 80_000);
  const meters = { input, cacheRead: Math.floor(input * random()), output: 500 + Math.floor(random() * 6_000) };
  return { event: "chat.completion", model, meters };
}

/** The first member uses half of the team's credits, the others a quarter each. */
const memberOf = (index) => MEMBERS[Math.max(0, (index % 4) - 1)];

/** All usage of customers, of the team and of the free tier. */
export function usageOfMonth({ run, startedMs }) {
  const eventsOf = (user, eventOf) => {
    const random = randomFrom(user.days[0] * 1_000 + user.eventsADay);
    return timesOf(user, random).map((day, index) => ({
      eventId: `${user.userId}-${index}-${run}`,
      userId: user.userId,
      ...eventOf(index, random),
      occurredAt: new Date(startedMs + (day - DAYS) * DAY_MS).toISOString(),
    }));
  };
  const modelOf = ({ plan, model }) => model ?? (plan === "Hobby" ? "small-3" : "large-2");
  const ofCustomers = CUSTOMERS.flatMap((customer) =>
    eventsOf(customer, (index, random) => chatOrImage(modelOf(customer), index, random)),
  );
  const ofTeam = eventsOf(TEAM, (index, random) => ({
    ...chatOrImage(modelOf(TEAM), index, random),
    memberId: memberOf(index),
  }));
  const ofFree = FREE.flatMap((user) => eventsOf(user, () => ({ event: "chat.free" })));
  const burst = Array.from({ length: MESSAGES_A_DAY + 4 }, (_, index) => ({
    eventId: `burst-${index}-${run}`,
    userId: FREE.at(-1).userId,
    event: "chat.free",
    occurredAt: new Date(startedMs - (50 - index) * MINUTE_MS).toISOString(),
  }));
  return [...ofCustomers, ...ofTeam, ...ofFree, ...burst];
}

/** Sends one of Stripe's events, signed at the time at which it happens. */
async function deliver({ send, clock }, { appId, secret }, type, object) {
  const timestamp = Math.floor(clock.ms / 1_000);
  const event = { id: `evt_${object.id}`, object: "event", type, created: timestamp, livemode: true, data: { object } };
  const payload = JSON.stringify(event);
  const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp });
  const headers = { "stripe-signature": signature };
  const response = await send(`/api/v1/stripe/${appId}/live`, { method: "POST", headers, body: payload });
  if (!response.ok) throw new Error(`Stripe's event was answered ${response.status}: ${await response.text()}`);
}

const paidSession = (name, userId, pack, price) => ({
  id: `cs_${name}`,
  object: "checkout.session",
  mode: "payment",
  payment_status: "paid",
  payment_intent: `pi_${name}`,
  amount_subtotal: price,
  amount_total: price,
  currency: "usd",
  client_reference_id: userId,
  metadata: { pack },
});

/** Sets up the plans, limit of members, alert and endpoint. Returns the ids of the plans' packs. */
export async function makePlans({ url, admin }, at, once) {
  const existing = await admin("GET", `${at}/packs`);
  const ids = {};
  for (const pack of PLANS) {
    ids[pack.packName.toLowerCase()] = await once(`pack ${pack.packName}`, async () => {
      const found = existing.packs.find(({ packName }) => packName === pack.packName);
      return (found ?? (await admin("POST", `${at}/packs`, pack))).packId;
    });
  }
  const names = { cents: { one: "credit", other: "credits" } };
  await once("unit names", () => admin("PUT", `${at}/unit-names`, { mode: "live", names }));
  const alert = { mode: "live", name: "Nearly used up", unit: "cents", below: { amount: 100 } };
  await once("alert", async () => {
    const { alerts } = await admin("GET", `${at}/alerts?mode=live`);
    return (alerts[0] ?? (await admin("POST", `${at}/alerts`, alert))).alertId;
  });
  const limits = [
    {
      ...{ name: "Messages a day", unit: "count", amount: MESSAGES_A_DAY, every: "day", timeZone: "Europe/Berlin" },
      matches: [{ event: "chat.*" }],
    },
    { name: "A member's month", unit: "cents", amount: 800, every: "month", per: "member" },
  ];
  for (const limit of limits) {
    await once(`limit ${limit.name}`, async () => {
      const { limits: made } = await admin("GET", `${at}/usage-limits?mode=live`);
      const found = made.find(({ name }) => name === limit.name);
      return (found ?? (await admin("POST", `${at}/usage-limits`, { mode: "live", ...limit }))).limitId;
    });
  }
  // The Worker of the seeding takes its messages.
  await once("endpoint", () => makeEndpoint({ url, admin }, at, "order-system", "Order system"));
  return ids;
}

async function makeEndpoint({ url, admin }, at, path, description) {
  const endpoint = { mode: "live", url: `${url}/${path}`, description };
  const { webhooks } = await admin("GET", `${at}/webhooks?mode=live`);
  const found = webhooks.find((each) => each.url === endpoint.url);
  return (found ?? (await admin("POST", `${at}/webhooks`, endpoint))).webhookId;
}

/** The operators' notes on some customers. */
const NOTES = [
  {
    day: 16.1,
    userId: REFUNDED,
    text: "Cancelled Pro after two days: too many credits for one person. Half is refunded at Stripe. Offer Hobby.",
  },
  {
    day: 29.5,
    userId: "user_barbara",
    text: "Lost an afternoon in the outage and was kind about it. 250 credits as goodwill. Ask how it goes in a month.",
  },
  {
    day: 9.2,
    userId: TEAM.userId,
    text: "Three people share the plan. Ask Joan before anybody changes the limit of members.\nThey want an invoice a year from spring.",
  },
];

/** Writes an operator's note. `signIn` opens a session of the dashboard. */
async function writeNote(signIn, appId, { userId, text }) {
  const operator = await signIn("Ana");
  const page = await operator.read(`/admin/apps/${appId}/live/users?userId=${userId}`);
  // An interrupted seeding may have sent it.
  if (!page.includes(text)) await operator.send(`/admin/apps/${appId}/live/users/notes`, page, { userId, text });
}

/** Returns what happens besides usage: the day, a name, and what to do. */
export function monthMoments(world, { appId, post, secret, signIn }, { run, startedMs }) {
  const at = `/apps/${appId}`;
  const stripe = (type, object) => deliver(world, { appId, secret }, type, object);
  const nameOf = (userId, index) => `${userId.slice(userId.indexOf("_") + 1)}${index}${run}`;
  const pay = (day, name, ...session) => ({
    ...{ day, name: `payment ${name}` },
    work: () => stripe("checkout.session.completed", paidSession(name, ...session)),
  });
  const cron = async () => {
    const { ok, status } = await world.send("/cron", { method: "POST" });
    if (!ok) throw new Error(`The cron of the seeding got ${status}.`);
  };
  const charge = {
    id: `ch_${nameOf(REFUNDED, 0)}`,
    object: "charge",
    payment_intent: `pi_${nameOf(REFUNDED, 0)}`,
    amount_captured: PRICE_CENTS.Pro,
    amount_refunded: PRICE_CENTS.Pro / 2,
    currency: "usd",
  };
  const goodwill = {
    ...{ userId: "user_barbara", packId: "Top-up", quantity: 250, source: "grant" },
    ...{ externalRef: `goodwill-${run}`, notes: "Outage" },
  };
  const hold = (day, userId, expiresInSeconds) => ({
    ...{ day, name: `hold of ${userId}` },
    work: () =>
      post("/api/v1/usage/reservations", {
        ...{ reservationId: `res_${userId}-${run}`, userId, event: "chat.completion", model: "large-2" },
        ...{ meters: { input: 400_000, output: 20_000 }, expiresInSeconds },
      }),
  });
  const payers = [...CUSTOMERS, TEAM];
  // The months of statements are in UTC.
  const firstMidnightMs = Math.ceil((startedMs - DAYS * DAY_MS) / DAY_MS) * DAY_MS;
  const midnights = Array.from({ length: DAYS }, (_, index) => new Date(firstMidnightMs + index * DAY_MS));
  const dayAfter = (date, minutes) => DAYS + (date.getTime() + minutes * MINUTE_MS - startedMs) / DAY_MS;
  const statementOf = (date) => ({
    ...{ day: dayAfter(date, 65), name: `statement before ${date.toISOString()}` },
    work: async () => {
      const month = new Date(date.getTime() - DAY_MS).toISOString().slice(0, 7);
      await world.admin("POST", `${at}/statements`, { mode: "live", month });
      await cron();
    },
  });
  const moments = [
    ...payers.flatMap(({ userId, plan, days }) =>
      days.map((day, index) => pay(day, nameOf(userId, index), userId, plan, PRICE_CENTS[plan])),
    ),
    { day: 16, name: "refund", work: () => stripe("charge.refunded", charge) },
    // It names a pack which nobody made: the list of payments says how to settle it.
    pay(DAYS - 0.08, `lost${run}`, "user_ken", "Pro 2024", 2_000),
    ...FREE.map(({ userId, days: [day] }) => ({
      day,
      name: `free tier of ${userId}`,
      work: () => post(...freeTier(userId)),
    })),
    { day: 29.5, name: "goodwill", work: () => post("/api/v1/credits/grant", goodwill) },
    hold(DAYS - 1.5, "user_frances", 600),
    hold(DAYS - 0.01, "user_radia", 3_600),
    ...NOTES.map((note) => ({ ...note, name: `note on ${note.userId}`, work: () => writeNote(signIn, appId, note) })),
    ...priceLists({ startedMs }).map(({ day, ...list }) => ({
      ...{ day, name: `prices from day ${day}` },
      work: () => world.admin("PUT", `${at}/prices`, { mode: "live", ...list }),
    })),
    // It answers 404, so the page of webhooks shows how attempts fail.
    {
      ...{ day: DAYS - 0.12, name: "mailing list" },
      work: () => makeEndpoint(world, at, "mailing-list", "Mailing list"),
    },
    ...midnights.filter((date) => date.getUTCDate() === 1).map(statementOf),
    // The cron has something to do when a plan's credits expire.
    ...payers.flatMap(({ days }) =>
      days.map((day) => ({ day: day + EXPIRY_DAYS, name: `cron on day ${day + EXPIRY_DAYS}`, work: cron })),
    ),
  ];
  return moments.filter(({ day }) => day <= DAYS);
}

/** The call that gives a user the free tier. */
export const freeTier = (userId) => [
  "/api/v1/credits/recurring",
  { recurringId: `rec_free-${userId}`, userId, packId: "Free", every: "month", timeZone: "Europe/Berlin" },
];
