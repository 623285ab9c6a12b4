import { DAY_MS } from "../../../src/lib/time.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";
import { stripeSignature } from "../../support/stripe-signature.ts";
import { ADMIN_TOKEN, type ServedApp, type Server } from "./server.ts";

/** A script that runs if a page inserts it without escaping. */
export const EVIL = `"><img src=x onerror=alert(1)><script>alert(2)</script>'`;
const SIGNING_SECRET = "whsec_of_the_tests_0001";

/** Creates an application. Every field that a caller or a person can fill contains a script. */
export interface DashboardWorld {
  readonly app: ServedApp;
  readonly userId: string;
  readonly ids: Readonly<Record<"packId" | "archivedId" | "balanceId" | "eventId" | "webhookId" | "erasureId", string>>;
}

type Json = Readonly<Record<string, unknown>>;

export async function fillDashboard(server: Server, name = `Desk ${EVIL}`): Promise<DashboardWorld> {
  const app = await server.makeApp();
  await server.db.prepare("UPDATE apps SET name = ? WHERE id = ?").bind(name, app.appId).run();
  const { send, admin, post, pay } = callsOf(server, app);
  const mode = "live";
  const matches = [{ event: `chat.* ${EVIL}`, model: `gpt ${EVIL}` }, { event: "*" }];
  const items = [
    { amount: 1_234_567.5, unit: "tokens", matches },
    { amount: 500, unit: "cents", priority: 5 },
  ];
  const { packId = "" } = await admin("packs", { packName: `Starter ${EVIL}`, defaultExpiryDays: 30, items });
  const { packId: wallet = "" } = await admin("packs", { packName: "Wallet", items: [], unit: "cents" });
  const { packId: archivedId = "" } = await admin("packs", { packName: `Old ${EVIL}`, items: [], unit: "count" });
  await admin(`packs/${archivedId}/archive`, {});
  await admin("alerts", {
    mode,
    name: `Low ${EVIL}${"w".repeat(80)}`,
    unit: "tokens",
    event: `chat ${EVIL}`,
    below: { percent: 12.5 },
  });
  await admin("expiry-notices", { mode, days: [30, 7, 1] }, "PUT");
  const { webhookId = "" } = await admin("webhooks", {
    mode,
    url: `http://127.0.0.1:9/hook?${encodeURIComponent(EVIL)}`,
    description: EVIL,
    types: ["*", "usage.recorded", "credits.*"],
  });
  const prices = [{ price: `price ${EVIL}`.slice(0, 40), packId: wallet, quantity: 100, expires: "period" }];
  await admin("stripe", { mode, setting: { signingSecrets: [SIGNING_SECRET], prices } }, "PUT");
  const carried = { mode: "subscription", customer: "cus_carry", client_reference_id: "carried" };
  await pay("checkout.session.completed", Math.floor(Date.now() / 1_000), session("cs_carry", carried));

  await admin("clock", { now: new Date(Date.now() + 40 * DAY_MS).toISOString() }, "PUT");

  const userId = `ada ${EVIL}`;
  const granted = await post("credits/grant", {
    userId,
    packId,
    externalRef: `order ${EVIL}`,
    notes: `note ${EVIL} ${"n".repeat(300)}`,
  });
  const { balanceId = "" } = granted;
  for (let n = 0; n < 9; n++) await post("credits/grant", { userId, packId: wallet, quantity: 1_000 * n + 0.25 });
  const eventId = `event ${EVIL}`;
  const usage = { userId, event: `chat.done ${EVIL}`, model: `gpt ${EVIL}`, quantities: { tokens: 1_000 } };
  await post("usage/events", { eventId, ...usage, properties: { x: EVIL } });
  await post("usage/reservations", { reservationId: "res_open", ...usage, expiresInSeconds: 3_600 });
  await post("usage/events", { eventId: "e2", ...usage, quantities: { tokens: 1e9 } }, 402);
  await post("credits/grant", { userId, packId: `none ${EVIL}` }, 404);
  await post("credits/refund", { userId, externalRef: `order ${EVIL}`, refundRef: EVIL, share: { part: 1, of: 10 } });

  const seen = (event: string, distinct_id: string, properties: object = {}) => ({ event, distinct_id, properties });
  const device = "0194685f-1b2c-7d3e-8f40-5a6b7c8d9e0f";
  const batch = [
    seen("$identify", userId, { $anon_distinct_id: device, $set: { name: EVIL } }),
    seen(EVIL, userId, { at: EVIL, [EVIL]: [EVIL] }),
    seen("seen", `bob ${EVIL}`),
    seen("seen", "gone"),
  ];
  await send("POST", "/batch/", app.keys.pk_live, { api_key: app.keys.pk_live, batch });
  const consent = { distinctId: userId, purpose: EVIL, decision: "granted", method: EVIL, source: EVIL };
  await post("consent", consent);
  await post("export-person", { distinctId: userId });
  const { erasureId = "" } = await post("erase-person", { distinctId: "gone", reason: "request" });

  const bought = { client_reference_id: userId, metadata: { pack: "wallet" } };
  await pay("checkout.session.completed", 1_768_478_400, session("cs_1", { ...bought, payment_intent: "pi_granted" }));
  await pay("charge.refunded", 1_768_478_401, charge("ch_1", "pi_granted", 300));
  const unmatched = { client_reference_id: null, metadata: { pack: `none ${EVIL}` }, payment_intent: `pi_${EVIL}` };
  await pay("checkout.session.completed", 1_768_478_402, session(`cs_${EVIL}`, unmatched));
  return { app, userId, ids: { packId, archivedId, balanceId, eventId, webhookId, erasureId } };
}

/** The calls of an application's owner: administration, the API with the secret key, and Stripe's events. */
function callsOf(server: Server, app: ServedApp) {
  const send = async (method: string, path: string, key: string, body: unknown, expected = 200) => {
    const answer = await fetch(`${server.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const text = await answer.text();
    if (answer.status !== expected) throw new Error(`${method} ${path} answered ${answer.status} ${text}`);
    // The API returns JSON objects.
    return JSON.parse(text) as Json & { readonly [field: string]: string };
  };
  const admin = (path: string, body: unknown, method = "POST") =>
    send(method, `/api/v1/admin/apps/${app.appId}/${path}`, ADMIN_TOKEN, body);
  const post = (path: string, body: unknown, expected?: number) =>
    send("POST", `/api/v1/${path}`, app.keys.sk_live, body, expected);
  const pay = async (type: string, at: number, object: Json) => {
    const payload = JSON.stringify(eventOf(type, at, object));
    const signature = await stripeSignature(payload, SIGNING_SECRET, Math.floor(Date.now() / 1_000));
    const answer = await fetch(`${server.url}/api/v1/stripe/${app.appId}/live`, {
      method: "POST",
      headers: { "stripe-signature": signature },
      body: payload,
    });
    if (!answer.ok) throw new Error(`Stripe's event was answered ${answer.status} ${await answer.text()}`);
  };
  return { send, admin, post, pay };
}

/** Creates users for an operator's daily tasks, each with a problem. */
export async function fillDay(server: Server): Promise<ServedApp> {
  const app = await server.makeApp();
  const { send, admin, post, pay } = callsOf(server, app);
  const { packId = "" } = await admin("packs", { packName: "Tokens", items: [], unit: "tokens" });
  await admin("stripe", { mode: "live", setting: { signingSecrets: [SIGNING_SECRET], prices: [] } }, "PUT");
  const nowS = Math.floor(Date.now() / 1_000);
  for (const n of [1, 2]) {
    const bought = { client_reference_id: "twice", metadata: { pack: packId, quantity: "500" } };
    await pay("checkout.session.completed", nowS, session(`cs_${n}`, { ...bought, payment_intent: `pi_${n}` }));
  }
  const use = (eventId: string, userId: string, tokens: number, expected?: number) =>
    post(
      "usage/events",
      { eventId, userId, event: "chat", model: "large", quantities: { count: 0, tokens } },
      expected,
    );
  for (const [userId, granted, used] of [
    ["short", 10, 0],
    ["tomorrow", 1_000, 900],
    ["burner", 1_000_000, 50_000],
  ] as const) {
    await post("credits/grant", { userId, packId, quantity: granted });
    if (used > 0) await use(`of ${userId}`, userId, used);
  }
  await use("too much", "short", 70, 402);
  await post("credits/grant", { userId: "buyer", packId, quantity: 200, externalRef: "order-9" });
  await send("POST", "/batch/", app.keys.pk_live, {
    api_key: app.keys.pk_live,
    batch: [{ event: "seen", distinct_id: "leaver", properties: {} }],
  });
  await server.cron();
  return app;
}

/** Creates an application whose lists are longer than a page: a user with many grants and much usage, and many users. */
export async function fillLongLists(server: Server): Promise<ServedApp> {
  const app = await server.makeApp();
  const { admin, post } = callsOf(server, app);
  const { packId = "" } = await admin("packs", { packName: "Tokens", items: [], unit: "tokens" });
  const numbers = Array.from({ length: 60 }, (_, n) => n);
  for (const n of numbers) {
    await post("credits/grant", { userId: "much", packId, quantity: 1_000, externalRef: `order-${n}` });
    await post("credits/grant", { userId: `user-${n}`, packId, quantity: 10 });
    if (n < 12) await admin("packs", { packName: `Pack ${n}`, items: [], unit: "count" });
  }
  const usedBy = (userId: string, n: number) => ({
    ...{ eventId: `${userId}-${n}`, userId, event: `event-${n % 12}`, model: `model-${n % 12}` },
    quantities: { count: 0, tokens: 5 },
  });
  await post(
    "usage/events",
    numbers.map((n) => usedBy("much", n)),
  );
  await post(
    "usage/events",
    numbers.map((n) => usedBy(`user-${n}`, n)),
  );
  await server.cron();
  return app;
}
