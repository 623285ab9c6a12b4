import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { readProfile } from "../../src/people/profile.ts";
import { hookedD1 } from "../support/hooked-d1.ts";
import { APPS } from "../support/paths.ts";
import { claimsOf, device, eventsOf, exportOf, identify, idOf, OK, type SentEvent, send } from "../support/people.ts";
import { Clock, makeApp, makeClient, makeCtx } from "../support/world.ts";

// Everybody has the public key. No word sent with it may change, hide, crowd out or delay what a server said.

beforeEach(() => {
  // Repeated attempts do not wait.
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock);
  const { pk_live: page, sk_live: server } = app.keys;
  const stranger = (batch: readonly SentEvent[]) => send(makeClient(clock), page, batch);
  return { clock, app, call, page, server, stranger, ctx: makeCtx(app.environments.live, clock) };
}

const changing = (changes: object, id = "ana"): SentEvent => ({ event: "seen", distinct_id: id, properties: changes });
const large = (length: number) => "x".repeat(length);

const duringTrips = (clock: Clock, act: (trip: number) => Promise<void>) =>
  makeClient(clock, { DB: hookedD1(env.DB, act) });

it("a stranger with the public key, who acts before each trip of the server's request, does not delay an erasure by claims on new devices", async () => {
  const { clock, app, call, server, stranger } = await world();
  await send(call, server, [changing({ $set: { plan: "pro" } })]);
  let devices = 0;
  const busy = duringTrips(clock, () => stranger([identify("ana", device(devices++))]).catch(() => {}));
  const answer = await busy("POST", "/api/v1/erase-person", { key: server, body: { distinctId: "ana" } });
  expect([answer.status, answer.body.status]).toEqual([200, "completed"]);
  expect(devices).toBeLessThan(30);
  expect(await claimsOf(app)).toEqual([]);
  expect(await eventsOf(app, "ana")).toEqual([]);
});

it("a stranger with the public key, who acts before each trip of the server's request, does not delay or undo a $set and an $unset", async () => {
  const { clock, app, call, server, stranger } = await world();
  await send(call, server, [changing({ $set: { plan: "pro", old: 1 } })]);
  let changes = 0;
  const busy = duringTrips(clock, () =>
    stranger([changing({ $set: { plan: `free ${changes++}`, old: changes, other: changes } })]),
  );
  await send(busy, server, [changing({ $set: { plan: "max" }, $unset: ["old"] })]);
  expect(changes).toBeLessThan(30);
  expect((await exportOf(call, app, "ana")).person?.properties).toMatchObject({ plan: "max" });
  expect(JSON.parse((await idOf(app, "ana"))?.verifiedProperties ?? "")).toEqual({ plan: "max" });
});

it("a stranger with the public key, who acts before each trip of the server's request, does not delay a verified claim on the device that the stranger claims", async () => {
  const { clock, app, server, stranger } = await world();
  let tries = 0;
  const busy = duringTrips(clock, () => stranger([identify(`eve ${tries++}`, device(1))]));
  await send(busy, server, [identify("ana", device(1))]);
  expect(tries).toBeLessThan(10);
  expect(await claimsOf(app)).toEqual([`${device(1)} < ana!`]);
});

it("a stranger with the public key, who acts before each trip of the server's request, does not hide an event by its id and UUID", async () => {
  const { clock, app, call, server, stranger } = await world();
  const uuid = crypto.randomUUID();
  const sent = (by: string): SentEvent => ({ ...changing({ by }), uuid });
  const busy = duringTrips(clock, () => stranger([sent("stranger")]));
  await send(busy, server, [sent("server")]);
  await stranger([sent("stranger")]);
  const { events } = await exportOf(call, app, "ana");
  expect(events.analytics.map(({ isVerified, properties }) => [isVerified, properties])).toEqual([
    [true, { by: "server" }],
  ]);
});

it("an isolate that remembers what a page said still stores the same of a server, apart", async () => {
  const { app, call, page, server } = await world();
  const same = changing({ $set: { plan: "pro" }, $set_once: { since: 1 } });
  for (let n = 0; n < 3; n++) await send(call, page, [same]);
  await send(call, server, [same]);
  await send(call, page, [changing({ $set: { plan: "free" }, $unset: ["since"] })]);
  expect((await exportOf(call, app, "ana")).person?.properties).toEqual({ plan: "pro", since: 1 });
  // And the other way round.
  const other = changing({ $set: { plan: "max" } }, "bob");
  for (let n = 0; n < 3; n++) await send(call, server, [other]);
  await send(call, page, [other, changing({ $unset: ["plan"] }, "bob")]);
  expect((await exportOf(call, app, "bob")).person?.properties).toEqual({ plan: "max" });
});

it("an isolate that remembers what a page said still verifies and moves its claims for a server", async () => {
  const { app, call, page, server } = await world();
  const claims = [identify("ana", device(1)), identify("ana", device(2))];
  for (let n = 0; n < 3; n++) await send(call, page, claims);
  await send(call, server, [identify("ana", device(1)), identify("bob", device(2))]);
  for (let n = 0; n < 3; n++) await send(call, page, claims);
  expect(await claimsOf(app)).toEqual([`${device(1)} < ana!`, `${device(2)} < bob!`]);
});

it("a server's properties come first by any name, also those of JavaScript's own objects, and whichever of $set and $set_once was used", async () => {
  const { app, call, page, server } = await world();
  const names = ["__proto__", "constructor", "toString", "length", "", "a.b", "\u0000", "plan"];
  const all = (value: string) => Object.fromEntries(names.map((name) => [name, value]));
  // JSON.stringify would leave out an own `__proto__` that a literal sets.
  const json = (value: string) => JSON.parse(`{"__proto__":${JSON.stringify(value)}}`);
  const both = (value: string) => Object.defineProperties(json(value), Object.getOwnPropertyDescriptors(all(value)));
  await send(call, page, [changing({ $set_once: both("page") })]);
  await send(call, server, [changing({ $set_once: both("server") })]);
  await send(call, page, [changing({ $set: both("page again") }), changing({ $unset: names })]);
  const { person } = await exportOf(call, app, "ana");
  for (const name of names) expect(person?.properties[name as never], name).toBe("server");
});

it("a server's properties are taken in one request although strangers filled the room of each of its ids", async () => {
  const { app, call, server, stranger } = await world();
  const ids = Array.from({ length: 300 }, (_, n) => `user ${n}`);
  await env.DB.prepare(
    `INSERT INTO id_properties (environment_id, distinct_id, is_verified, properties, version)
       SELECT ?1, value, 0, ?3, 1 FROM json_each(?2)`,
  )
    .bind(app.environments.live.id, JSON.stringify(ids), JSON.stringify({ plan: large(64_000) }))
    .run();
  await stranger([changing({}, "user 0")]);
  const batch = ids.map((id) => changing({ $set: { plan: "pro" } }, id));
  const answer = await call("POST", "/batch/", { body: { api_key: server, batch } });
  expect([answer.status, answer.body]).toEqual([200, OK]);
  expect((await exportOf(call, app, "user 299")).person?.properties).toEqual({ plan: "pro" });
});

it("a server's events are stored after strangers reached the limits of their id and of the day", async () => {
  const { app, call, page, server, stranger } = await world();
  const analytics = { eventsADay: 8, eventsADayOfOneId: 3 };
  const body = { mode: "live", analytics };
  expect((await call("PUT", `${APPS}/${app.appId}/limits`, { key: env.ADMIN_TOKEN, body })).status).toBe(200);
  for (let n = 0; n < 12; n++) await stranger([changing({ n }), changing({ n }, `eve ${n}`)]);
  const full = await call("POST", "/batch/", { body: { api_key: page, batch: [changing({}, "new")] } });
  expect(full.body).toMatchObject({ quota_limited: ["events"] });
  const batch = [changing({ by: "server", $set: { plan: "pro" } }), identify("ana", device(1))];
  const answer = await call("POST", "/batch/", { body: { api_key: server, batch } });
  expect([answer.status, answer.body]).toEqual([200, OK]);
  const { events, person } = await exportOf(call, app, "ana");
  expect(events.analytics.filter(({ isVerified }) => isVerified)).toHaveLength(2);
  expect(person?.properties).toEqual({ plan: "pro" });
});

it("a person's page shows what a server linked, although strangers claim more devices than a page shows", async () => {
  const { app, call, server, stranger, ctx } = await world();
  await stranger(Array.from({ length: 60 }, (_, n) => identify("ana", device(n))));
  const crm = changing({ by: "server" }, "crm-7");
  await send(call, server, [identify("ana", "crm-7"), crm]);
  await stranger(Array.from({ length: 40 }, (_, n) => identify("ana", device(100 + n))));
  const consent = { distinctId: "crm-7", purpose: "ads", decision: "denied" };
  expect((await call("POST", "/api/v1/consent", { key: server, body: consent })).status).toBe(200);
  const profile = await readProfile(ctx, "ana");
  expect(profile.claims.slice(0, 1)).toMatchObject([{ distinctId: "crm-7", isVerified: true, counts: true }]);
  expect(profile.events.map(({ distinctId }) => distinctId)).toContain("crm-7");
  expect(profile.consents.map(({ distinctId }) => distinctId)).toEqual(["crm-7"]);
  expect(profile.isTruncated).toBe(true);
  expect(await claimsOf(app)).toHaveLength(101);
});
