import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { DAY_MS, HOUR_MS } from "../../../src/lib/time.ts";
import { deleteReplacedEvents } from "../../../src/people/capture/delete-old-events.ts";
import { linkTo, open, readAll, readDocument } from "../../support/exports.ts";
import { hookedD1 } from "../../support/hooked-d1.ts";
import { claimsOf, device, exportOf, identify, idOf, type SentEvent, send } from "../../support/people.ts";
import { makeAccount } from "../../support/seed-rows.ts";
import { Clock, makeApp, makeClient, makeCtx, type TestApp } from "../../support/world.ts";

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock);
  const { pk_live: page, sk_live: server } = app.keys;
  return { clock, app, call, page, server };
}

const changing = (changes: object, id = "ana"): SentEvent => ({ event: "seen", distinct_id: id, properties: changes });
const alias = (id: string, other: string): SentEvent => ({
  event: "$create_alias",
  distinct_id: id,
  properties: { alias: other },
});

it("what secret keys set of an id goes before what publishable keys set, own and claimed ids alike, whichever came first", async () => {
  const { app, call, page, server } = await world();
  await send(call, page, [changing({ $set: { plan: "forged", mood: "own" }, $set_once: { origin: "forged" } })]);
  await send(call, server, [
    changing({ $set: { plan: "pro" }, $set_once: { origin: "server" } }),
    changing({ $set: { tier: "gold" } }, device(1)),
    identify("ana", device(1)),
  ]);
  await send(call, page, [changing({ $set: { plan: "forged again", tier: "forged" } })]);
  const { person } = await exportOf(call, app, "ana");
  expect(person?.properties).toEqual({ plan: "pro", origin: "server", tier: "gold", mood: "own" });
  const stored = await idOf(app, "ana");
  expect([stored?.verifiedProperties, stored?.properties].map((json) => JSON.parse(json ?? ""))).toEqual([
    { plan: "pro", origin: "server" },
    { plan: "forged again", mood: "own", origin: "forged", tier: "forged" },
  ]);
});

it("what secret keys set of an id has room of its own, so that nobody crowds it out", async () => {
  const { app, call, page, server } = await world();
  const names = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`n${n}`, "x".repeat(40)]));
  await send(call, page, [changing({ $set: names })]);
  await send(call, page, [changing({ $set: { plan: "one too many" } })]);
  await send(call, server, [changing({ $set: { plan: "pro", address: "y".repeat(60_000) } })]);
  const { person } = await exportOf(call, app, "ana");
  expect(Object.keys(person?.properties ?? {})).toHaveLength(1_002);
  expect(person?.properties).toMatchObject({ plan: "pro", n0: "x".repeat(40) });
});

it("what secret keys set of an id is removed by a secret key's $unset alone, which removes what others set too", async () => {
  const { app, call, page, server } = await world();
  await send(call, page, [changing({ $set: { plan: "forged", mood: "own" } })]);
  await send(call, server, [changing({ $set: { plan: "pro" } })]);
  await send(call, page, [changing({ $unset: ["plan"] })]);
  expect((await exportOf(call, app, "ana")).person?.properties).toEqual({ plan: "pro", mood: "own" });
  await send(call, page, [changing({ $set: { plan: "forged" } })]);
  // The same event again must not be taken for settled while others set the property.
  for (let times = 0; times < 2; times++) {
    await send(call, server, [changing({ $unset: ["plan"] })]);
    expect((await exportOf(call, app, "ana")).person?.properties).toEqual({ mood: "own" });
    await send(call, page, [changing({ $set: { plan: "forged" } })]);
  }
});

const uuid = "00000000-0000-4000-8000-0000000000aa";
const said = (text: string, id = "ana"): SentEvent => ({ uuid, event: text, distinct_id: id, properties: {} });
const events = async (app: TestApp, call: ReturnType<typeof makeClient>, id = "ana") =>
  (await exportOf(call, app, id)).events.analytics.map(({ event, isVerified }) => [event, isVerified]);

it("an event is one by its id and its UUID so nobody takes the UUID of another id's event", async () => {
  const { app, call, page, server } = await world();
  await send(call, page, [said("squatted", "eve")]);
  await send(call, server, [said("paid")]);
  await send(call, page, [said("squatted", "bob")]);
  expect(await events(app, call)).toEqual([["paid", true]]);
  expect(await events(app, call, "eve")).toEqual([["squatted", false]]);
  expect(await events(app, call, "bob")).toEqual([["squatted", false]]);
});

it("an event is one by its id and its UUID and a verified one replaces one that is not, never the other way", async () => {
  const { app, clock, call, page, server } = await world();
  await send(call, page, [said("forged")]);
  for (let times = 0; times < 2; times++) await send(call, server, [said("paid")]);
  await send(call, page, [said("forged again")]);
  expect(await events(app, call)).toEqual([["paid", true]]);
  expect(await idOf(app, "ana")).toMatchObject({ eventCount: 2, replacedCount: 1, eventBytes: 2 });
  const rows = async () =>
    (
      await env.DB.prepare("SELECT seq FROM analytics_events WHERE environment_id = ? ORDER BY seq")
        .bind(app.environments.live.id)
        .all<{ seq: number }>()
    ).results.map(({ seq }) => seq);
  const cron = { ...makeCtx(app.environments.live, clock), allowance: { has: () => true } };
  await deleteReplacedEvents(cron as never);
  expect(await rows()).toEqual([1, 2]);
  clock.advance(HOUR_MS + 1);
  await deleteReplacedEvents(cron as never);
  expect(await rows()).toEqual([2]);
  expect(await events(app, call)).toEqual([["paid", true]]);
  await send(call, page, [{ ...said("later"), uuid: crypto.randomUUID() }]);
  expect(await events(app, call)).toEqual([
    ["paid", true],
    ["later", false],
  ]);
});

const WARNING = "send the user's id as distinct_id";
const aliased = async (call: ReturnType<typeof makeClient>, key: string, id: string, other: string) => {
  const answer = await call("POST", "/batch/", { body: { api_key: key, batch: [alias(id, other)] } });
  return (answer.headers.get("purser-warning") ?? "").includes(WARNING);
};

it("a secret key's alias lets distinct_id claim the other id, whatever publishable keys said of either", async () => {
  const { app, call, page, server } = await world();
  // With a publishable key's word about bob the alias would be reversed.
  await send(call, page, [{ event: "$identify", distinct_id: "bob" }, changing({ $is_identified: true }, "bob")]);
  await send(call, page, [{ event: "seen", distinct_id: device(1) }]);
  expect(await aliased(call, server, device(1), "bob")).toBe(true);
  expect(await claimsOf(app)).toEqual([`bob < ${device(1)}!`]);
  await send(call, page, [{ event: "$identify", distinct_id: device(2) }]);
  await makeAccount(app.environments.live.id, "ann");
  expect(await aliased(call, server, device(2), "ann")).toBe(false);
  expect(await claimsOf(app)).toContain(`${device(2)} < ann!`);
});

it("a secret key's alias is reversed only for a user by verified marks: an account, an own consent, a secret key's event", async () => {
  const { app, call, server } = await world();
  await makeAccount(app.environments.live.id, "payer");
  const consent = { distinctId: "consenting", purpose: "ads", decision: "granted" };
  expect((await call("POST", "/api/v1/consent", { key: server, body: consent })).status).toBe(200);
  await send(call, server, [changing({ $set: { a: 1 } }, "known")]);
  for (const [n, user] of ["payer", "consenting", "known"].entries()) {
    expect(await aliased(call, server, device(n), user)).toBe(false);
  }
  // A device's id that has a mark itself is a user, and claims.
  await send(call, server, [changing({}, device(9))]);
  await makeAccount(app.environments.live.id, "other");
  expect(await aliased(call, server, device(9), "other")).toBe(false);
  expect(await claimsOf(app)).toEqual([
    ...[`${device(0)} < payer!`, `${device(1)} < consenting!`, `${device(2)} < known!`],
    `other < ${device(9)}!`,
  ]);
});

it("a secret key's alias warns of a device's event that a publishable key identified, too", async () => {
  const { call, page, server } = await world();
  await send(call, page, [{ event: "$identify", distinct_id: device(1) }]);
  const answer = await call("POST", "/batch/", {
    body: { api_key: server, batch: [{ event: "paid", distinct_id: device(1) }] },
  });
  expect(answer.headers.get("purser-warning")).toContain("id of a device");
});

it("an export is one moment and complete while strangers change a thousand claimed devices between all of its pages", async () => {
  const { app, clock, call, page, server } = await world();
  const { live } = app.environments;
  for (let day = 0; day < 10; day++) {
    const ids = Array.from({ length: 100 }, (_, n) => device(100 * day + n));
    await send(
      call,
      page,
      ids.map((id) => identify("ana", id)),
    );
    await send(
      call,
      page,
      ids.map((id, n) => ({ ...changing({ $set: { [`of${100 * day + n}`]: "first" } }, id), uuid: eventOf(day, n) })),
    );
    clock.advance(DAY_MS);
  }
  await env.DB.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
     INSERT INTO analytics_events (environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties)
     SELECT environment_id, distinct_id, event_count + i, 'of-' || i, 'seen', 1, 1, '{}' FROM distinct_ids, n
     WHERE environment_id = ?1 AND distinct_id = ?2`,
  )
    .bind(live.id, device(0))
    .run();
  await env.DB.prepare(
    "UPDATE distinct_ids SET event_count = event_count + 6000, event_bytes = event_bytes + 12000 WHERE environment_id = ?1 AND distinct_id = ?2",
  )
    .bind(live.id, device(0))
    .run();
  let trips = 0;
  const before = (await exportOf(call, app, "ana")).events.analytics;
  const d1 = hookedD1(env.DB, async () => {
    if (++trips < 3) return;
    const n = (trips * 7) % 1_000;
    clock.advance(1_000);
    await send(call, page, [
      changing({ $set: { [`of${n}`]: "x".repeat(5_000), late: trips } }, device(n)),
      identify("eve", device(n)),
      identify("ana", device(2_000 + trips)),
      // One device becomes a user, and is a person of its own from now on.
      { event: "$identify", distinct_id: device(n + 1) },
    ]);
    // A server replaces an event of the document.
    await send(call, server, [
      { uuid: eventOf(Math.floor(n / 100), n % 100), event: "verified", distinct_id: device(n), properties: {} },
    ]);
  });
  const text = await readAll(await open(await linkTo(app, "ana", clock), clock, d1));
  const { events, person } = readDocument(text);
  expect(trips).toBeGreaterThan(5);
  expect(events.analytics).toEqual(before);
  expect(person?.distinctIds).toHaveLength(1_001);
});

const eventOf = (day: number, n: number) => `00000000-0000-4000-8000-${`${100 * day + n}`.padStart(12, "0")}`;
