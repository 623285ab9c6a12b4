import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { warningText } from "../../../src/http/warnings.ts";
import { countingD1 } from "../../support/counting-d1.ts";
import { END_USER_SETTING, jwksSetting } from "../../support/end-user-setting.ts";
import { type Answer, Clock, makeApp, makeClient, makeKey, makeOpenAmountPack, makePack } from "../../support/world.ts";

// A request that succeeds but looks like a mistake gets a warning in a header, and nothing else changes (W16).

const QUANTITY = /^The quantity is ignored/;
const ANOTHER = /^This externalRef was granted before with another quantity/;
const COUNT = /^A balance in count pays 1/;
const ROUNDED = /^A quantity or a meter has more decimals/;
const HELD_UNITS = /^The commit has none of the units/;
const AUDIENCE = /^The setting names no audience/;
const PERCENT = /^The percentage is below 1/;
const PARAMETER = /^An unknown query parameter was ignored/;
const DEVICE = /^A secret key sent an event with the id of a device/;

it("a response has the first three of its warnings", () => {
  expect(warningText(new Set(["First.", "Second.", "Third.", "Fourth."]))).toBe("First. Second. Third.");
});

const warningOf = ({ status, headers }: Answer): string | null => {
  expect(status).toBe(200);
  const warning = headers.get("purser-warning");
  if (warning !== null) expect(warning).toMatch(/^[\x20-\x7e]+\.$/);
  return warning;
};

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const counting = countingD1(env.DB);
  const call = makeClient(clock, { DB: counting.d1 });
  const key = app.keys.sk_live;
  const post = (path: string, body: object) => call("POST", `/api/v1/${path}`, { key, body });
  const admin = (method: string, path: string, body: object) =>
    call(method, `/api/v1/admin/apps/${app.appId}/${path}`, { key: env.ADMIN_TOKEN, body });
  return { app, call, counting, post, admin };
}

it("a grant warns about a quantity for a pack with items, even on a replay", async () => {
  const { app, post } = await world();
  await makePack(app.appId, "Items", [{ amountMinor: 1_000, unit: "tokens" }]);
  const body = { userId: "ana", packId: "Items", externalRef: "order-1" };
  expect(warningOf(await post("credits/grant", body))).toBeNull();
  expect(warningOf(await post("credits/grant", { ...body, quantity: null }))).toBeNull();
  for (const quantity of [5, -1]) {
    expect(warningOf(await post("credits/grant", { userId: "ana", packId: "Items", quantity }))).toMatch(QUANTITY);
    expect(warningOf(await post("credits/grant", { ...body, quantity }))).toMatch(QUANTITY);
  }
});

it("a query warns about an unknown parameter that is a known one but for case or underscores, and about no other", async () => {
  const { app, call } = await world();
  const list = (query: string) => call("GET", `/api/v1/credits?userId=ana${query}`, { key: app.keys.sk_live });
  for (const query of ["&IncludeExpired=true", "&include_expired=true&x=1", "&user_id=ana", "&event=chat&EVENT=chat"]) {
    expect(warningOf(await list(query))).toMatch(PARAMETER);
  }
  for (const query of ["", "&utm_source=mail", "&includeExpired=true", "&limit=5", "&toString=1", "&%FF=1", "&=1"]) {
    expect(warningOf(await list(query))).toBeNull();
  }
});

it("a grant warns about a repeated externalRef with another quantity, and about no other replay", async () => {
  const { app, post } = await world();
  await makeOpenAmountPack(app.appId, "Wallet", "tokens");
  const body = { userId: "ana", packId: "Wallet", externalRef: "order-1", quantity: 10 };
  expect(warningOf(await post("credits/grant", body))).toBeNull();
  await post("usage/events", { eventId: "e1", userId: "ana", event: "chat", quantities: { tokens: 4 } });
  for (const quantity of [10, 10.0, null]) {
    const again = await post("credits/grant", { ...body, quantity });
    expect([warningOf(again), again.headers.get("idempotent-replayed")]).toEqual([null, "true"]);
  }
  for (const quantity of [6, 10.001, 10.0001, 0, -10]) {
    const again = await post("credits/grant", { ...body, quantity });
    expect(warningOf(again)).toMatch(ANOTHER);
    expect(again.body.remaining).toBe(6);
  }
});

it("a recurring grant warns about a quantity for a pack with items, also on a replay, and not without one", async () => {
  const { app, post } = await world();
  await makePack(app.appId, "Items", [{ amountMinor: 1_000, unit: "tokens" }]);
  await makeOpenAmountPack(app.appId, "Wallet", "tokens");
  const make = (recurringId: string, body: object) =>
    post("credits/recurring", { recurringId, userId: "ana", packId: "Items", every: "month", ...body });
  for (let times = 0; times < 2; times++) {
    expect(warningOf(await make("rec_a", { quantity: 5 }))).toMatch(QUANTITY);
    expect(warningOf(await make("rec_b", {}))).toBeNull();
    expect(warningOf(await make("rec_c", { quantity: null }))).toBeNull();
    expect(warningOf(await make("rec_d", { packId: "Wallet", quantity: 5 }))).toBeNull();
  }
});

const event = (eventId: string, quantities: object) => ({ eventId, userId: "ana", event: "chat", quantities });

it("usage warns if a balance in count pays the implied 1 of an event with other quantities, even on a replay and in a plan", async () => {
  const { app, post } = await world();
  await makeOpenAmountPack(app.appId, "Calls", "count");
  await post("credits/grant", { userId: "ana", packId: "Calls", quantity: 100 });
  for (let times = 0; times < 2; times++) {
    expect(warningOf(await post("usage/events", event("e1", { tokens: 5 })))).toMatch(COUNT);
    expect(warningOf(await post("usage/events", event("e2", { tokens: 5, count: 1 })))).toBeNull();
    expect(warningOf(await post("usage/events", event("e3", {})))).toBeNull();
  }
  const plan = (quantities: object) => post("credits/plan", { userId: "ana", event: "chat", quantities });
  const planned = await plan({ tokens: 5 });
  expect(warningOf(planned)).toMatch(COUNT);
  expect(planned.body.debits).toMatchObject([{ unit: "count", amount: 1 }]);
  for (const quantities of [{ tokens: 5, count: 2 }, { tokens: 5, count: 0 }, {}]) {
    expect(warningOf(await plan(quantities))).toBeNull();
  }
});

it("usage warns if a quantity had to be rounded: of an event, a list, a hold, a commit and a plan, even on a replay", async () => {
  const { app, post } = await world();
  await makeOpenAmountPack(app.appId, "Tokens", "tokens");
  await post("credits/grant", { userId: "ana", packId: "Tokens", quantity: 100 });
  const noise = { tokens: 0.1 + 0.2, count: 0 };
  const exact = { tokens: 0.3, count: 0 };
  for (const [quantities, warning] of [[noise, ROUNDED] as const, [exact, null] as const]) {
    const name = warning === null ? "exact" : "noise";
    const reservation = { reservationId: `res_${name}`, userId: "ana", event: "chat", quantities };
    const calls: [string, object][] = [
      ["usage/events", event(name, quantities)],
      ["usage/events", [event(`${name} 2`, exact), event(`${name} 3`, quantities)]],
      ["usage/reservations", reservation],
      [`usage/reservations/res_${name}/commit`, { eventId: `${name} 4`, quantities }],
      ["credits/plan", { userId: "ana", event: "chat", quantities }],
    ];
    for (const [path, body] of [...calls, ...calls]) {
      const answer = await post(path, body);
      if (warning === null) expect(warningOf(answer), path).toBeNull();
      else expect(warningOf(answer), path).toMatch(warning);
    }
  }
  const [first] = (await post("credits/plan", { userId: "ana", event: "chat", quantities: noise })).body.debits;
  expect(first).toMatchObject({ amount: 0.3 });
});

it("usage warns if a commit has none of the units that are held, even on a replay", async () => {
  const { app, post } = await world();
  for (const unit of ["tokens", "cents"] as const) {
    await makeOpenAmountPack(app.appId, unit, unit);
    await post("credits/grant", { userId: "ana", packId: unit, quantity: 100 });
  }
  const hold = async (id: string, quantities: object) => {
    const body = {
      reservationId: `res_${id}`,
      userId: "ana",
      event: "chat",
      quantities: { count: 0, ...quantities },
    };
    expect(warningOf(await post("usage/reservations", body))).toBeNull();
  };
  const commit = (id: string, quantities: object) =>
    post(`usage/reservations/res_${id}/commit`, { eventId: `of ${id}`, quantities });
  await hold("a", { tokens: 5 });
  for (let times = 0; times < 2; times++) {
    const answer = await commit("a", { cents: 2, count: 0 });
    expect(warningOf(answer)).toMatch(HELD_UNITS);
    expect(answer.body.debits).toMatchObject([{ unit: "cents", amount: 2 }]);
  }
  await hold("b", { tokens: 200, cents: 2 });
  expect(warningOf(await commit("b", { cents: 1 }))).toBeNull();
  await hold("c", { tokens: 5 });
  expect(warningOf(await commit("c", { tokens: 0 }))).toBeNull();
  await hold("d", { tokens: 0 });
  expect(warningOf(await commit("d", { cents: 1 }))).toBeNull();
});

it("usage warns for holds and commits too, but not if another balance pays or the event is rejected", async () => {
  const { app, post } = await world();
  await makeOpenAmountPack(app.appId, "Calls", "count");
  const refused = await post("usage/events", event("e0", { tokens: 5 }));
  expect([refused.status, refused.headers.get("purser-warning")]).toEqual([402, null]);
  await post("credits/grant", { userId: "ana", packId: "Calls", quantity: 100 });
  const hold = { reservationId: "res_w16_count", userId: "ana", event: "chat", quantities: { tokens: 5 } };
  for (let times = 0; times < 2; times++) {
    expect(warningOf(await post("usage/reservations", hold))).toMatch(COUNT);
  }
  const path = `usage/reservations/${hold.reservationId}/commit`;
  for (let times = 0; times < 2; times++) {
    expect(warningOf(await post(path, { eventId: "e1", quantities: { tokens: 5 } }))).toMatch(COUNT);
  }
  await makePack(app.appId, "First", [{ amountMinor: 100_000, unit: "tokens" }]);
  await env.DB.prepare(
    "UPDATE credit_pack_items SET priority = 1 WHERE pack_id IN (SELECT id FROM credit_packs WHERE name = 'First' AND app_id = ?)",
  )
    .bind(app.appId)
    .run();
  await post("credits/grant", { userId: "ana", packId: "First" });
  expect(warningOf(await post("usage/events", event("e2", { tokens: 5 })))).toBeNull();
});

it("usage warns once for a list, for any number of its events and users", async () => {
  const { app, post } = await world();
  await makeOpenAmountPack(app.appId, "Calls", "count");
  for (const userId of ["ana", "bob"]) await post("credits/grant", { userId, packId: "Calls", quantity: 100 });
  const list = (quantities: object, prefix: string) =>
    ["ana", "bob", "ana", "eve"].map((userId, index) => ({ ...event(`${prefix}${index}`, quantities), userId }));
  for (const path of ["usage/events", "usage/events/batch"]) {
    for (let times = 0; times < 2; times++) {
      const answer = await post(path, list({ tokens: 1 }, "a"));
      expect(warningOf(answer)).toMatch(COUNT);
      expect(answer.headers.get("purser-warning")?.match(/A balance/g)).toHaveLength(1);
      expect(warningOf(await post(path, list({ tokens: 1, count: 1 }, "b")))).toBeNull();
    }
  }
});

it("administration warns about a jwks setting for any audience", async () => {
  const { admin } = await world();
  const url = "https://clerk.example/.well-known/jwks.json";
  const set = (setting: object | null) => admin("PUT", "end-user-auth", { mode: "live", setting });
  for (let times = 0; times < 2; times++) {
    expect(warningOf(await set(jwksSetting(url)))).toMatch(AUDIENCE);
  }
  expect(warningOf(await set({ ...jwksSetting(url), audience: "purser" }))).toBeNull();
  expect(warningOf(await set(END_USER_SETTING))).toBeNull();
  expect(warningOf(await set(null))).toBeNull();
});

it("administration warns about an alert's percentage below 1", async () => {
  const { admin } = await world();
  const add = (below: object) => admin("POST", "alerts", { mode: "live", name: "Low", unit: "tokens", below });
  expect(warningOf(await add({ percent: 0.2 }))).toMatch(PERCENT);
  expect(warningOf(await add({ percent: 1 }))).toBeNull();
  const added = await add({ amount: 0.2 });
  expect(warningOf(added)).toBeNull();
  const change = (below: object) => admin("PATCH", `alerts/${added.body.alertId}`, { below });
  for (let times = 0; times < 2; times++) expect(warningOf(await change({ percent: 0.5 }))).toMatch(PERCENT);
  expect(warningOf(await change({ percent: 50 }))).toBeNull();
});

it("administration warns about a quantity for a pack with items in the prices of Stripe's setting", async () => {
  const { app, admin } = await world();
  await makePack(app.appId, "Items", [{ amountMinor: 1_000, unit: "tokens" }]);
  await makeOpenAmountPack(app.appId, "Wallet", "tokens");
  const set = (...prices: object[]) =>
    admin("PUT", "stripe", { mode: "live", setting: { signingSecrets: ["whsec_0123456789"], prices } });
  const wallet = { price: "price_1", packId: "Wallet", quantity: 5 };
  expect(warningOf(await set(wallet, { price: "price_2", packId: "Items", quantity: 5 }))).toMatch(QUANTITY);
  expect(warningOf(await set(wallet, { price: "price_2", packId: "Items" }))).toBeNull();
});

const seen = (id: string, properties: object = {}) => ({
  ...{ event: "seen", distinct_id: id, uuid: crypto.randomUUID(), properties },
});
const personless = { $process_person_profile: false };

async function captureWorld() {
  const { app, call, counting, post } = await world();
  const v0 = (key: string, batch: readonly object[]) => call("POST", "/batch/", { body: { api_key: key, batch } });
  const v1 = (key: string, batch: readonly object[]) =>
    call("POST", "/i/v1/analytics/events", { key, body: { batch } });
  return { app, counting, post, v0, v1, server: app.keys.sk_live, page: app.keys.pk_live };
}

it("a secret key's event under a device's id warns once, in both protocols, if publishable keys' events created the id", async () => {
  for (const properties of [{}, personless, { $set: { a: 1 } }]) {
    const { v0, v1, server, page } = await captureWorld();
    for (const send of [v0, v1]) {
      const device = crypto.randomUUID();
      expect(warningOf(await send(page, [seen(device, properties)]))).toBeNull();
      expect(warningOf(await send(server, [seen(device, personless)]))).toBeNull();
      const event = seen(device, properties === personless ? {} : properties);
      expect(warningOf(await send(server, [seen("ana"), event]))).toMatch(DEVICE);
      expect(warningOf(await send(server, [event, seen(device)]))).toBeNull();
    }
  }
});

it("a secret key's event under a device's id warns if a relay key's events created the id, and not if the id is a user by a verified mark, is new or has no device's form", async () => {
  const { app, post, v1, server, page } = await captureWorld();
  const relayed = crypto.randomUUID();
  await v1(await makeKey(app.environments.live, "relay"), [seen(relayed)]);
  expect(warningOf(await v1(server, [seen(relayed)]))).toMatch(DEVICE);
  const [identified, granted, consented, byServer] = Array.from({ length: 4 }, () => crypto.randomUUID());
  const ids = [granted, consented, "ana"].map(String);
  await v1(page, [
    ...[...ids, String(identified)].map((id) => seen(id)),
    { ...seen(String(identified)), event: "$identify" },
  ]);
  await makeOpenAmountPack(app.appId, "Wallet", "tokens");
  await post("credits/grant", { userId: granted, packId: "Wallet", quantity: 1 });
  await post("consent", { distinctId: consented, purpose: "analytics", decision: "granted" });
  await v1(server, [seen(String(byServer), personless)]);
  // A page's own word makes no verified mark.
  expect(warningOf(await v1(server, [seen(String(identified))]))).toMatch(DEVICE);
  for (const id of [...ids, String(byServer), crypto.randomUUID()]) {
    expect(warningOf(await v1(server, [seen(id)]))).toBeNull();
  }
});

it("a secret key's event under a device's id costs no trip and no written row, and reads at most five rows an id", async () => {
  const { counting, v1, server, page } = await captureWorld();
  const [device, other] = [crypto.randomUUID(), crypto.randomUUID()];
  await v1(page, [...Array.from({ length: 50 }, () => seen(device)), seen(other), seen("bob")]);
  await v1(server, [seen("ana")]);
  const costOf = async (id: string) => {
    counting.spent();
    await v1(server, [seen(id)]);
    return counting.spent();
  };
  const [plain, warned] = [await costOf("bob"), await costOf(device)];
  expect([warned.roundTrips, warned.rowsWritten]).toEqual([plain.roundTrips, plain.rowsWritten]);
  expect(warned.rowsRead - plain.rowsRead).toBeLessThanOrEqual(5);
});
