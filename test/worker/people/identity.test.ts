import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { END_USER_SECRET } from "../../support/end-user-setting.ts";
import {
  claimsOf,
  device,
  eventsOf,
  exportOf,
  identify,
  idOf,
  idsOf,
  personIds,
  type SentEvent,
  seen,
  send,
} from "../../support/people.ts";
import { expectError } from "../../support/rejections.ts";
import { isSoak } from "../../support/soak.ts";
import { type Client, Clock, makeApp, makeClient, makeOpenAmountPack, type TestApp } from "../../support/world.ts";

/** How many ids the largest persons claim, by requests of 2,500. */
const CLAIMS = isSoak ? 10_000 : 1_000;
const CLAIMS_AT_ONCE = CLAIMS / 4;

const alias = (id: string, other: string): SentEvent => ({
  event: "$create_alias",
  distinct_id: id,
  properties: { alias: other },
});

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  return { clock, app, call: makeClient(clock), page: app.keys.pk_live, server: app.keys.sk_live };
}

/** Gives an id credits, which makes it a user. */
async function grantTo(call: Client, app: TestApp, userId: string): Promise<void> {
  const packId = await makeOpenAmountPack(app.appId, `Pack ${crypto.randomUUID()}`, "count");
  const body = { userId, packId, quantity: 1 };
  expect((await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body })).status).toBe(200);
}

it("a publishable key links a device to its identified user, even if the device sends later, and shows how and when", async () => {
  const { call, app, clock, page } = await world();
  const atMs = clock.ms;
  await send(call, page, [identify("ana", device(1))]);
  clock.advance(1_000);
  await send(call, page, [seen(device(1)), alias("ana", device(2))]);
  const { person, events } = await exportOf(call, app, "ana");
  const at = (ms: number) => new Date(ms).toISOString();
  expect(person?.distinctIds).toEqual([
    { distinctId: "ana", linkedAt: at(atMs), via: null, claimedBy: null, isVerified: false },
    { distinctId: device(1), linkedAt: at(atMs), via: "identify", claimedBy: "ana", isVerified: false },
    { distinctId: device(2), linkedAt: at(atMs + 1_000), via: "alias", claimedBy: "ana", isVerified: false },
  ]);
  expect(person).toMatchObject({ createdAt: at(atMs), lastSeenAt: at(atMs + 1_000), isIdentified: true });
  expect(events.analytics.map((event) => [event.event, event.distinctId])).toEqual([
    ["$identify", "ana"],
    ["$create_alias", "ana"],
    ["seen", device(1)],
  ]);
});

it("a publishable key never adds the claimer's data to the claimed id", async () => {
  const { call, app, page } = await world();
  await send(call, page, [identify("ana", device(1), { $set: { name: "Ana" } }), seen(device(1))]);
  const { person, events } = await exportOf(call, app, device(1));
  expect(person).toMatchObject({ properties: {}, isIdentified: false });
  expect(person?.distinctIds).toEqual([expect.objectContaining({ distinctId: device(1), claimedBy: null, via: null })]);
  expect(events.analytics.map((event) => event.distinctId)).toEqual([device(1)]);
  expect(JSON.stringify([person, events])).not.toMatch(/"ana"|Ana/);
});

it.each(["crm-7", "bob", "anonymous", ' "NULL" ', `${device(1)}0-1`, `{${device(1)}}`, "0-0-0-0-0"])(
  "a publishable key links nobody to %s, which has no device's form, and stores no record of it",
  async (other) => {
    const { call, app, page } = await world();
    await send(call, page, [identify("ana", other), alias("ana", other)]);
    expect(await claimsOf(app)).toEqual([]);
    expect(await idOf(app, other)).toBeNull();
    expect(await eventsOf(app, "ana")).toHaveLength(2);
  },
);

it.each([device("a"), device("B").toUpperCase(), "17d2a5a5d8e6e4-0ff8e2b8d9c6b6-1f396452-13c680-17d2a5a5d8fc34"])(
  "a publishable key links the device %s",
  async (other) => {
    const { call, app, page } = await world();
    await send(call, page, [identify("ana", other)]);
    expect(await claimsOf(app)).toEqual([`${other} < ana`]);
  },
);

it("a publishable key links no device that is a user: identified, or with its own credits, usage or consent", async () => {
  const clock = new Clock();
  const secret = END_USER_SECRET;
  const app = await makeApp({ type: "hs256", secret });
  const call = makeClient(clock);
  const { pk_live: page, sk_live: key } = app.keys;
  await send(call, page, [identify(device(1))]);
  await grantTo(call, app, device(2));
  const usage = { eventId: "e", userId: device(3), event: "mail", onShortage: "partial" };
  await call("POST", "/api/v1/usage/events", { key, body: usage });
  const { SignJWT } = await import("jose");
  const token = await new SignJWT({ sub: device(4) })
    .setProtectedHeader({ alg: "HS256" })
    .setExpirationTime(Math.floor(clock.ms / 1_000) + 600)
    .sign(new TextEncoder().encode(secret));
  const consent = (distinctId: string) => ({ distinctId, purpose: "ads", decision: "granted" });
  const byUser = { key: page, body: consent(device(4)), headers: { "x-user-token": token } };
  expect((await call("POST", "/api/v1/consent", byUser)).status).toBe(200);
  // With `isDevice` a secret key's consent does not make the device a user.
  await call("POST", "/api/v1/consent", { key, body: { ...consent(device(5)), isDevice: true } });
  const asPage = { ...byUser, body: { ...consent(device(4)), isDevice: true } };
  expectError(await call("POST", "/api/v1/consent", asPage), "invalid_request");
  await send(
    call,
    page,
    [1, 2, 3, 4, 5].map((n) => identify("ana", device(n))),
  );
  expect(await claimsOf(app)).toEqual([`${device(5)} < ana`]);
});

it("a publishable key links a device only to its first claimer", async () => {
  const { call, app, page } = await world();
  await send(call, page, [identify("ana", device(1)), identify("bob", device(1))]);
  await send(call, page, [alias("bob", device(1)), alias("ana", device(1))]);
  expect(await claimsOf(app)).toEqual([`${device(1)} < ana`]);
});

it("a publishable key lets no device claim another, in one request or in several", async () => {
  const { call, app, page } = await world();
  await send(call, page, [alias(device(1), device(2)), identify("ana", device(1)), alias(device(1), device(2))]);
  await send(call, page, [alias(device(1), device(3)), alias(device(3), device(1))]);
  expect(await claimsOf(app)).toEqual([`${device(1)} < ana`]);
});

it("a publishable key builds no tree under a victim's id: of seven requests that try, only the first step reaches the export", async () => {
  const { call, app, page } = await world();
  const ids = (level: number) => Array.from({ length: 5 }, (_, n) => device(level * 100 + n));
  const [first, second, third, fourth] = [ids(1), ids(2), ids(3), ids(4)];
  const pairs = (claimers: readonly string[], others: readonly string[], by: typeof alias) =>
    claimers.flatMap((claimer, n) => by(claimer, others[n] ?? ""));
  await send(call, page, [seen("victim")]);
  // Direct claims, then claims between devices in both directions, then claims by devices that first become users.
  await send(
    call,
    page,
    first.map((id) => identify("victim", id)),
  );
  await send(call, page, pairs(first, second, alias));
  await send(call, page, pairs(second, first, alias));
  await send(call, page, [...third.map((id) => identify(id)), ...pairs(third, fourth, identify)]);
  await send(
    call,
    page,
    third.map((id) => identify("victim", id)),
  );
  // A claimed device becomes a user and claims another device. Both are then no part of the victim.
  await send(call, page, [identify(device(100)), identify(device(100), device(200))]);
  await send(
    call,
    page,
    [...second, ...fourth].map((id) => seen(id, { secret: "planted" })),
  );
  const { person, events } = await exportOf(call, app, "victim");
  const reached = person?.distinctIds.map(({ distinctId }) => distinctId);
  expect(reached).toEqual(["victim", ...first.slice(1)]);
  expect(JSON.stringify(events)).not.toContain("planted");
  // The devices that became users keep their claims, and none of these reaches the victim.
  const claimCount = (await claimsOf(app)).length;
  expect(claimCount).toBe(first.length + fourth.length + 1);
});

it("a publishable key reverses an alias if its own id is a device and the other id is not one, or is a user", async () => {
  const { call, app, page } = await world();
  await send(call, page, [identify("ana"), alias(device(1), "ana")]);
  await send(call, page, [alias(device(2), "bob"), identify("bob"), identify(device(3), "ana")]);
  expect(await claimsOf(app)).toEqual([`${device(1)} < ana`, `${device(2)} < bob`]);
});

it("a publishable key makes a claim that ends if the device becomes a user, and then the claimer has none of the device's data", async () => {
  const { call, app, page } = await world();
  await send(call, page, [identify("ana", device(1)), seen(device(1), { $set: { secret: 1 } })]);
  expect(await personIds(call, app, "ana")).toEqual(["ana", device(1)]);
  await grantTo(call, app, device(1));
  const { person, events } = await exportOf(call, app, "ana");
  expect(person?.distinctIds).toHaveLength(1);
  expect(person?.properties).toEqual({});
  expect(events.analytics).toHaveLength(1);
  expect(await personIds(call, app, device(1))).toEqual([device(1)]);
  // The claim is still stored, so nobody else can claim the device.
  await send(call, page, [alias("bob", device(1)), alias(device(1), "ana")]);
  expect(await claimsOf(app)).toEqual([`${device(1)} < ana`]);
});

it("a secret key joins users, and ids of any form, by verified claims", async () => {
  const { call, app, server } = await world();
  await send(call, server, [identify("ana"), identify("bob"), alias("ana", "bob"), alias("bob", "crm-7")]);
  await grantTo(call, app, "bob");
  const { person } = await exportOf(call, app, "ana");
  expect(person?.distinctIds.map((row) => [row.distinctId, row.claimedBy, row.isVerified])).toEqual([
    ["ana", null, false],
    ["bob", "ana", true],
    ["crm-7", "bob", true],
  ]);
  expect(person?.credits.balances).toHaveLength(1);
});

it("a secret key marks its events as verified, and those of a publishable key as not", async () => {
  const { call, app, server, page } = await world();
  await send(call, server, [seen("ana")]);
  await send(call, page, [seen("ana")]);
  const { events } = await exportOf(call, app, "ana");
  expect(events.analytics.map((event) => event.isVerified)).toEqual([true, false]);
});

it("a secret key replaces another id's unverified claim, verifies an equal one, and never replaces a verified one", async () => {
  const { call, app, server, page } = await world();
  await send(call, page, [identify("mallory", device(1)), identify("ana", device(2))]);
  await send(call, server, [identify("ana", device(1)), identify("ana", device(2))]);
  expect(await claimsOf(app)).toEqual([`${device(1)} < ana!`, `${device(2)} < ana!`]);
  for (const key of [server, page]) await send(call, key, [identify("mallory", device(1)), identify("ana", device(1))]);
  expect(await claimsOf(app)).toEqual([`${device(1)} < ana!`, `${device(2)} < ana!`]);
});

it("a secret key ends the unverified claim nearest above the claimer if it would close a circle", async () => {
  for (const isOneRequest of [true, false]) {
    const { call, app, server, page } = await world();
    // The claims are 1 < 2 < 3 < 4, of which only 2 < 3 is verified.
    await send(call, page, [alias(device(4), device(3)), alias(device(2), device(1))]);
    await send(call, server, [alias(device(3), device(2))]);
    const links = [alias(device(1), device(4)), alias(device(2), device(1))];
    for (const batch of isOneRequest ? [links] : links.map((link) => [link])) await send(call, server, batch);
    expect(await claimsOf(app)).toEqual([
      `${device(1)} < ${device(2)}!`,
      `${device(2)} < ${device(3)}!`,
      `${device(4)} < ${device(1)}!`,
    ]);
  }
});

it("a secret key has no effect if all claims of the circle are verified, or for shared ids", async () => {
  const { call, app, server } = await world();
  await send(call, server, [
    alias("a", "b"),
    alias("b", "c"),
    alias("c", "a"),
    alias("a", "guest"),
    alias("null", "d"),
  ]);
  expect(await claimsOf(app)).toEqual(["b < a!", "c < b!"]);
});

it("a secret key makes a chain of thousands of ids in a few requests, which an export reads in order", async () => {
  const { call, app, server } = await world();
  const links = Array.from({ length: CLAIMS }, (_, n) => alias(`id-${n}`, `id-${n + 1}`));
  for (let start = 0; start < links.length; start += CLAIMS_AT_ONCE) {
    // Within a request the order is reversed.
    await send(call, server, links.slice(start, start + CLAIMS_AT_ONCE).toReversed());
  }
  const ids = await personIds(call, app, "id-0");
  expect(ids).toHaveLength(CLAIMS + 1);
  expect(ids.slice(0, 3)).toEqual(["id-0", "id-1", "id-2"]);
  expect(await personIds(call, app, `id-${CLAIMS - 10}`)).toHaveLength(11);
  await send(call, server, [alias(`id-${CLAIMS}`, "id-0")]);
  expect((await idOf(app, "id-0"))?.claimedBy).toBeNull();
}, 60_000);

it("a person is anybody who sent an event that is not personless, or is part of a claim", async () => {
  const { call, app, page, server } = await world();
  const personless = (id: string) => seen(id, { $process_person_profile: false, $set: { never: 1 } });
  await send(call, page, [personless("ghost"), personless("crm"), personless(device(1))]);
  for (const id of ["ghost", "crm", device(1)]) expect((await exportOf(call, app, id)).person).toBeNull();
  await send(call, page, [identify("ana", device(1))]);
  const claimed = await exportOf(call, app, device(1));
  expect(claimed.person).toMatchObject({ properties: {}, isIdentified: false });
  expect(claimed.events.analytics).toHaveLength(1);
  await send(call, server, [alias("ana", "crm")]);
  expect((await exportOf(call, app, "crm")).events.analytics).toHaveLength(1);
  await grantTo(call, app, "ghost");
  const { person, events } = await exportOf(call, app, "ghost");
  expect(person).toMatchObject({ personId: null, distinctIds: [], createdAt: null });
  expect(events.analytics).toEqual([]);
  // A device that becomes a user is no longer claimed, so its personless events belong to nobody again.
  await grantTo(call, app, device(1));
  expect((await exportOf(call, app, device(1))).person?.personId).toBeNull();
});

it("a person has a stable id, which differs between ids and between applications", async () => {
  const [first, other] = [await world(), await world()];
  for (const { call, page } of [first, other]) await send(call, page, [seen("ana"), seen("bob")]);
  const nameOf = async ({ call, app }: typeof first, id: string) => (await exportOf(call, app, id)).person?.personId;
  const names = [await nameOf(first, "ana"), await nameOf(first, "bob"), await nameOf(other, "ana")];
  expect(new Set(names).size).toBe(3);
  for (const name of names) expect(name).toMatch(/^per_[0-9A-Za-z]{22}$/);
  await send(first.call, first.page, [identify("ana", device(1))]);
  expect(await nameOf(first, "ana")).toBe(names[0]);
});

it("a person has its own properties, then those of the ids that it claims, nearest first, and each id keeps its own", async () => {
  const { call, app, page, server } = await world();
  await send(call, page, [
    seen(device(1), { $set: { plan: "free", city: "Ghent", far: 1 } }),
    seen(device(2), { $set: { plan: "none", city: "Rome", far: 2, farther: 3 } }),
    identify("ana", device(1), { $set: { plan: "gold" }, $set_once: { first: "a" } }),
    seen("ana", { $set_once: { first: "b", last: "c" } }),
    seen("ana", { $unset: ["last"] }),
    seen("ana", { $process_person_profile: false, $set: { plan: "lost" } }),
  ]);
  await send(call, server, [identify("ana", device(1)), identify(device(1), device(2))]);
  const { person } = await exportOf(call, app, "ana");
  expect(person?.properties).toEqual({ plan: "gold", first: "a", city: "Ghent", far: 1, farther: 3 });
  expect(JSON.parse((await idOf(app, device(2)))?.properties ?? "")).toMatchObject({ city: "Rome" });
  expect((await exportOf(call, app, device(1))).person?.properties).toMatchObject({ plan: "free", far: 1 });
});

it("a person is exported completely and in order, even if some of its ids claim many ids and others few", async () => {
  const { call, app, page, server } = await world();
  const links = [
    ...[1, 2, 3].map((n) => identify("ana", device(n))),
    ...Array.from({ length: 40 }, (_, n) => identify(device(2), device(100 + n))),
    ...Array.from({ length: 5 }, (_, n) => identify(device(3), device(200 + n))),
    identify(device(139), device(300)),
  ];
  await send(call, server, links);
  const devices = [1, 2, 3, 300].concat(
    Array.from({ length: 40 }, (_, n) => 100 + n),
    Array.from({ length: 5 }, (_, n) => 200 + n),
  );
  await send(
    call,
    page,
    devices.map((n) => seen(device(n))),
  );
  const { person, events } = await exportOf(call, app, "ana");
  expect(person?.distinctIds.map((row) => row.distinctId)).toEqual([
    "ana",
    ...[1, 2, 3].map(device),
    ...Array.from({ length: 40 }, (_, n) => device(100 + n)),
    ...Array.from({ length: 5 }, (_, n) => device(200 + n)),
    device(300),
  ]);
  expect(events.analytics).toHaveLength(2 * links.length);
  expect(new Set(events.analytics.map((event) => event.uuid)).size).toBe(2 * links.length);
});

it("a person with thousands of claimed ids is exported completely", async () => {
  const { call, app, page, server } = await world();
  for (let start = 0; start < CLAIMS; start += CLAIMS_AT_ONCE) {
    await send(
      call,
      server,
      Array.from({ length: CLAIMS_AT_ONCE }, (_, index) => alias("many", device(start + index))),
    );
  }
  await send(call, page, [seen(device(CLAIMS - 1))]);
  const { person, events } = await exportOf(call, app, "many");
  expect(person?.distinctIds).toHaveLength(CLAIMS + 1);
  expect(events.analytics).toHaveLength(CLAIMS + 1);
}, 60_000);

it("concurrent requests keep seq gapless, counts correct and every property, in any order", async () => {
  const { call, app, page } = await world();
  const events = Array.from({ length: 40 }, (_, index): SentEvent => {
    const other = device(index % 3);
    if (index % 10 === 9) return identify("ana", other, { $set: { index } });
    return seen(index % 2 === 0 ? other : "ana", { $set_once: { [index]: 1 } });
  });
  await Promise.all(events.map((event) => send(call, page, [event])));
  const { results } = await env.DB.prepare(
    `SELECT d.event_count AS counted, d.event_bytes AS bytes, count(*) AS n, max(e.seq) AS last,
         sum(octet_length(e.properties)) AS size
       FROM distinct_ids AS d JOIN analytics_events AS e USING (environment_id, distinct_id)
       WHERE d.environment_id = ? GROUP BY d.distinct_id`,
  )
    .bind(app.environments.live.id)
    .all<{ counted: number; n: number; last: number; bytes: number; size: number }>();
  expect(results.reduce((sum, row) => sum + row.n, 0)).toBe(40);
  for (const row of results) expect(row).toMatchObject({ counted: row.n, last: row.n, bytes: row.size });
  const { person } = await exportOf(call, app, "ana");
  expect(person?.distinctIds.map((row) => row.distinctId).sort()).toEqual([device(0), device(1), device(2), "ana"]);
  const once = events.flatMap((_, index) => (index % 10 === 9 ? [] : [`${index}`]));
  expect(Object.keys(person?.properties ?? {}).sort()).toEqual([...once, "index"].sort());
});

it("concurrent requests close no circle: two of three claims are kept", async () => {
  const { call, app, server } = await world();
  const ofDevices = [identify(device(1), device(2)), identify(device(2), device(3)), identify(device(3), device(1))];
  for (const links of [ofDevices, [alias("a", "b"), alias("b", "c"), alias("c", "a")]]) {
    await Promise.all(links.map((link) => send(call, server, [link])));
  }
  expect(await claimsOf(app)).toHaveLength(4);
  for (const { distinctId } of await idsOf(app))
    expect((await personIds(call, app, distinctId)).length).toBeLessThan(4);
});

it("concurrent requests claim a device once: the first claim stays", async () => {
  const { call, app, page } = await world();
  await Promise.all(Array.from({ length: 20 }, (_, n) => send(call, page, [identify(`user-${n}`, device(1))])));
  expect((await idOf(app, device(1)))?.version).toBe(1);
  expect(await claimsOf(app)).toHaveLength(1);
});

it("$merge_dangerously is stored as an ordinary event, and links nothing", async () => {
  const { call, app, server } = await world();
  await send(call, server, [{ event: "$merge_dangerously", distinct_id: "ana", properties: { alias: "bob" } }]);
  expect(await idOf(app, "bob")).toBeNull();
  expect(await eventsOf(app, "ana")).toHaveLength(1);
});
