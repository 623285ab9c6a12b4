import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { DAY_MS } from "../../../src/lib/time.ts";
import { readProfile } from "../../../src/people/profile.ts";
import { gzip } from "../../support/encode.ts";
import { times } from "../../support/minor.ts";
import {
  claimsOf,
  device,
  eventsOf,
  exportOf,
  identify,
  idOf,
  idsOf,
  type SentEvent,
  send,
} from "../../support/people.ts";
import { expectError } from "../../support/rejections.ts";
import { makeEndpoint, storedMessages } from "../../support/webhooks.ts";
import { Clock, makeApp, makeClient, makeCtx, makeKey } from "../../support/world.ts";

/** A claim with a UUID, which the protocol v1 requires. */
const claim = (id: string, other: string): SentEvent => ({ ...identify(id, other), uuid: crypto.randomUUID() });

async function world() {
  const app = await makeApp();
  const clock = new Clock();
  return { app, clock, call: makeClient(clock), key: app.keys.pk_live };
}

const star = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => claim("ana", device(from + n)));

it("the claims of one id by publishable keys are at most 100 a UTC day, and the answer does not tell, but a message and the person's page do", async () => {
  const { app, clock, call, key } = await world();
  await makeEndpoint(app.environments.live, ["limits.reached"]);
  await send(call, key, star(0, 99));
  const batch = star(99, 103).map((event) => ({ uuid: crypto.randomUUID(), ...event }));
  const answer = await call("POST", "/i/v1/analytics/events", { key, body: { batch } });
  expect(Object.values(answer.body.results)).toEqual(Array(4).fill({ result: "ok" }));
  await send(call, key, star(103, 105));
  expect(await claimsOf(app)).toHaveLength(100);
  expect(await eventsOf(app, "ana")).toHaveLength(105);
  const messages = await storedMessages(app.environments.live);
  expect(messages.map(({ data }) => data)).toEqual([{ limit: "claims", environment: "live" }]);
  const profile = await readProfile(makeCtx(app.environments.live, clock), "ana");
  expect(profile.claimsOverLimit).toBe(5);
  // The day is a UTC day in real time, and each id has its own count.
  await send(call, key, [claim("bob", device(500))]);
  clock.advance(DAY_MS);
  await send(call, key, star(100, 250));
  expect(await claimsOf(app)).toHaveLength(201);
});

it("the claims of one id by publishable keys are at most a thousand, in any number of days, and a secret key may make more", async () => {
  const { app, clock, call, key } = await world();
  for (let day = 0; day < 11; day++) {
    await send(call, key, star(100 * day, 100 * day + 110));
    clock.advance(DAY_MS);
  }
  expect(await claimsOf(app)).toHaveLength(1_000);
  expect(await eventsOf(app, "ana")).toHaveLength(11 * 110);

  await send(call, app.keys.sk_live, star(2_001, 2_002));
  expect(await claimsOf(app)).toHaveLength(1_001);
  await send(call, key, [claim("bob", device(2_001)), claim("bob", device(2_002))]);
  expect((await claimsOf(app)).filter((claim) => claim.endsWith("< bob"))).toHaveLength(1);
});

it("the claims of one id by publishable keys are at most 100 a day even if requests race", async () => {
  const { app, call, key } = await world();
  await send(call, key, star(0, 90));
  await Promise.all(Array.from({ length: 8 }, (_, n) => send(call, key, star(1_000 + 4 * n, 1_004 + 4 * n))));
  expect(await claimsOf(app)).toHaveLength(100);
  expect(await eventsOf(app, "ana")).toHaveLength(90 + 32);
});

describe("a tree of ids below a user, made by publishable keys", () => {
  /** An id of 200 characters in a device's form. */
  const long = (n: number) => `0194685f-8a3c-7d11-9f2b-${`${n}`.padStart(176, "0")}`;

  it("has one level of a hundred ids a day at most, and the user's export opens", async () => {
    const { app, call, key } = await world();
    await send(call, app.keys.sk_live, [{ event: "seen", distinct_id: "ana" }]);
    const alias = (id: string, other: string): SentEvent => ({
      ...claim(id, other),
      event: "$create_alias",
      properties: { alias: other },
    });
    await send(
      call,
      key,
      times(999, (n) => claim("ana", long(n))),
    );
    // Each request claims about 990 more: by an id that becomes a user, by aliases in both directions, and through users in between.
    for (const request of [
      times(999, (n) => claim(long(0), long(10_000 + n))),
      times(999, (n) => alias(long(1), long(20_000 + n))),
      times(999, (n) => alias(long(30_000 + n), long(2))),
      [alias("ana", "bob"), claim("ana", "eve"), ...times(990, (n) => claim("bob", long(40_000 + n)))],
      times(990, (n) => alias("eve", long(50_000 + n))),
      [alias(long(3), "ana"), alias(long(4), long(3)), ...times(990, (n) => alias(long(4), long(60_000 + n)))],
    ]) {
      await send(call, key, request);
    }
    const { person } = await exportOf(call, app, "ana");
    const ids = person?.distinctIds.map(({ distinctId }) => distinctId) ?? [];
    expect(ids.length).toBeGreaterThan(90);
    expect(ids.length).toBeLessThanOrEqual(101);
    expect(ids.filter((id) => id !== "ana" && Number(id.slice(-6)) >= 1_000)).toEqual([]);
  });
});

const seen = (n: number, more = {}): SentEvent => ({ event: "seen", distinct_id: `id ${n}`, ...more });
const v1 = (batch: readonly SentEvent[]) => batch.map((event) => ({ uuid: crypto.randomUUID(), ...event }));

it("the distinct ids that one request names are at most a thousand with a publishable or relay key, and a larger request is rejected so that clients send half", async () => {
  const { app, call, key } = await world();
  const relay = await makeKey(app.environments.live, "relay");
  const tooMany = times(1_001, (n) => seen(n));
  for (const sender of [key, relay]) {
    expectError(await call("POST", "/batch/", { body: { api_key: sender, batch: tooMany } }), "payload_too_large");
    const answer = await call("POST", "/i/v1/analytics/events", { key: sender, body: { batch: v1(tooMany) } });
    expectError(answer, "payload_too_large");
  }
  expect(await eventsOf(app, "id 0")).toEqual([]);
  await send(call, key, tooMany.slice(0, 1_000));
  await send(
    call,
    key,
    times(3_000, (n) => seen(n % 1_000)),
  );
  await send(call, app.keys.sk_live, tooMany);
  expect(await eventsOf(app, "id 0")).toHaveLength(5);
});

it.each(["$anon_distinct_id", "alias", "$device_id", "$user_id", "distinct_id"])(
  "the distinct ids that one request names are counted with those in the property %s",
  async (property) => {
    const { app, call, key } = await world();
    const batch = times(500, (n) => seen(n, { properties: { [property]: `other ${n}` } }));
    await send(call, key, batch);
    const more = [...batch, seen(0, { properties: { [property]: "another" } })];
    expectError(await call("POST", "/batch/", { body: { api_key: key, batch: more } }), "payload_too_large");
    expect(await eventsOf(app, "id 0")).toHaveLength(1);
  },
);

describe("the ids of a request, each time that they are named,", () => {
  // 200 code points of three bytes, and a mention of 24 bytes.
  const long = (n: number) => `${n}`.padStart(2, "0") + "\u20ac".repeat(198);
  const event = (n: number, mention: string): SentEvent => ({
    ...{ event: "seen", distinct_id: long(n % 100), uuid: crypto.randomUUID(), properties: { $device_id: mention } },
  });
  const idBytes = 2 + 3 * 198;
  const full = Math.floor((1024 * 1024) / (idBytes + 24));
  const rest = 1024 * 1024 - full * (idBytes + 24);
  const batchOf = (lastIdBytes: number) => [
    ...times(full, (n) => event(n, "m".repeat(24))),
    { event: "last", distinct_id: "l".repeat(lastIdBytes), uuid: crypto.randomUUID() },
  ];

  it.each(["pk_live", "sk_live"] as const)("have at most 1 MiB in UTF-8 with the key %s", async (kind) => {
    const { app, call } = await world();
    const key = app.keys[kind];
    const v0 = async (batch: readonly SentEvent[]) =>
      call("POST", "/batch/", { body: await gzip(JSON.stringify({ api_key: key, batch })) });
    const v1 = async (batch: readonly SentEvent[]) =>
      call("POST", "/i/v1/analytics/events", { key, body: await gzip(JSON.stringify({ batch })) });
    for (const sendAll of [v0, v1]) expectError(await sendAll(batchOf(rest + 1)), "payload_too_large");
    expect(await idsOf(app)).toEqual([]);
    const batch = batchOf(rest);
    for (const sendAll of [v0, v1]) expect((await sendAll(batch)).status).toBe(200);
    const ids = await idsOf(app);
    expect(ids).toHaveLength(101);
    expect(ids.reduce((sum, { eventCount }) => sum + eventCount, 0)).toBe(full + 1);
  });
});

/** Sets `count` names at one id, which counts ten and each name. */
const change = (n: number, count: number): SentEvent => ({
  ...{ event: "seen", distinct_id: `id ${n % 100}` },
  properties: { $set: Object.fromEntries(times(count, (m) => [`n${m}`, n])) },
});
const FULL = [...times(198, (n) => change(n, 90)), identify("ana", device(1)), change(0, 180)];

it("the changes to people in a request are at most 20,000 with a publishable or relay key, beyond which nothing is stored", async () => {
  const { app, call, key } = await world();
  const relay = await makeKey(app.environments.live, "relay");
  const beyond = [...FULL.slice(0, -1), change(0, 181)];
  for (const sender of [key, relay]) {
    expectError(await call("POST", "/batch/", { body: { api_key: sender, batch: beyond } }), "payload_too_large");
    const batch = beyond.map((one) => ({ uuid: crypto.randomUUID(), ...one }));
    expectError(await call("POST", "/i/v1/analytics/events", { key: sender, body: { batch } }), "payload_too_large");
  }
  expect(await idsOf(app)).toEqual([]);
  expect(await claimsOf(app)).toEqual([]);
  await send(call, key, FULL);
  expect(await claimsOf(app)).toHaveLength(1);
  expect(await eventsOf(app, "id 0")).toHaveLength(3);
  await send(call, app.keys.sk_live, beyond);
  expect(await eventsOf(app, "id 0")).toHaveLength(6);
});

const seed = async (environmentId: number, count: number, bytes: number) => {
  const properties = JSON.stringify({ held: "x".repeat(bytes - 11) });
  await env.DB.prepare(
    `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
       INSERT INTO id_properties (environment_id, distinct_id, properties) SELECT CAST(?1 AS INTEGER), 'id-' || i, ?2 FROM n`,
  )
    .bind(environmentId, properties, count - 1)
    .run();
  return properties;
};
const setting = (count: number): SentEvent[] =>
  Array.from({ length: count }, (_, n) => ({
    event: "seen",
    distinct_id: `id-${n}`,
    uuid: `00000000-0000-4000-8000-${`${n}`.padStart(12, "0")}`,
    properties: { $set: { a: n }, ...(n % 7 === 0 ? { $process_person_profile: false } : {}) },
  }));

it("ids that hold many properties are read in parts, and each gets its new property", async () => {
  const { app, call } = await world();
  const seeded = await seed(app.environments.live.id, 70, 60_000);
  await send(call, app.keys.pk_live, setting(70));
  const ids = new Map((await idsOf(app)).map((row) => [row.distinctId, row]));
  for (let n = 0; n < 70; n++) {
    const expected = n % 7 === 0 ? seeded : `${seeded.slice(0, -1)},"a":${n}}`;
    expect(ids.get(`id-${n}`)?.properties === expected, `id-${n}`).toBe(true);
    expect(ids.get(`id-${n}`)?.eventCount).toBe(1);
  }
});

it("ids that hold many properties are rejected if a public request would rewrite more than 4 MiB of them, and clients then send half", async () => {
  const { app, call, key } = await world();
  await seed(app.environments.live.id, 300, 60_000);
  // 33 KB of events name the ids of 18 MB of properties.
  const batch = setting(300);
  expect(JSON.stringify(batch).length).toBeLessThan(50_000);
  expectError(await call("POST", "/batch/", { body: { api_key: key, batch } }), "payload_too_large");
  const { results: rewritten } = await env.DB.prepare(
    "SELECT octet_length(properties) AS size FROM id_properties WHERE environment_id = ? AND version > 1",
  )
    .bind(app.environments.live.id)
    .all<{ size: number }>();
  expect(rewritten.reduce((sum, { size }) => sum + size, 0)).toBeLessThanOrEqual(4 * 1024 * 1024);
  for (let from = 0; from < 300; from += 75) await send(call, key, batch.slice(from, from + 75));
  const { results } = await env.DB.prepare("SELECT event_count AS count FROM distinct_ids WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .all();
  expect(results).toEqual(Array.from({ length: 300 }, () => ({ count: 1 })));
  expect((await idOf(app, "id-298"))?.properties?.endsWith(',"a":298}')).toBe(true);
});

it("ids that hold many properties are rewritten by a secret key without this limit, in a room of their own", async () => {
  const { app, call } = await world();
  const seeded = await seed(app.environments.live.id, 150, 60_000);
  await send(call, app.keys.sk_live, setting(150));
  const last = await idOf(app, "id-149");
  expect([last?.properties, last?.verifiedProperties]).toEqual([seeded, '{"a":149}']);
});
