import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { DAY_MS } from "../../../../src/lib/time.ts";
import { deleteOldAnalytics } from "../../../../src/people/capture/delete-old-events.ts";
import { sizePart } from "../../../../src/people/limits/analytics-limits.ts";
import { readSettings } from "../../../../src/settings.ts";
import { browse } from "../../../support/browse.ts";
import { runPart } from "../../../support/cron.ts";
import { exportOf, LIMITED, OK, send } from "../../../support/people.ts";
import { makeEndpoint, storedMessages } from "../../../support/webhooks.ts";
import { bound, Clock, makeAdminCtx, makeApp, makeClient, makePack } from "../../../support/world.ts";

// From 80 % of the database's size on, analytics by publishable keys are not stored. From 95 % on, none are stored (L3).

const BYTES_MAX = 1_000_000_000;
const setSize = (bytes: number, freed = 0) =>
  env.DB.prepare("UPDATE database_size SET bytes = ?, freed_bytes = ?").bind(bytes, freed).run();
const sizeOf = () =>
  env.DB.prepare("SELECT bytes, freed_bytes AS freed FROM database_size").first<{ bytes: number; freed: number }>();
afterEach(() => setSize(0));

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock, { DATABASE_BYTES_MAX: `${BYTES_MAX}` });
  const seen = (uuid = crypto.randomUUID()) => ({ uuid, event: "seen", distinct_id: "ana", properties: {} });
  const v0 = async (key: string, batch = [seen()]) =>
    (await call("POST", "/batch/", { body: { api_key: key, batch } })).body;
  return { app, call, clock, seen, v0 };
}

it("near the maximum size of the database, analytics stop for publishable keys at 80 %, for secret keys at 95 %, in PostHog's own terms", async () => {
  const { app, call, seen, v0 } = await world();
  const { pk_live: page, sk_live: server } = app.keys;
  await setSize(0.8 * BYTES_MAX - 1);
  const before = seen();
  expect(await v0(page, [before])).toEqual(OK);
  await setSize(0.8 * BYTES_MAX);
  expect(await v0(page)).toEqual(LIMITED);
  expect(await v0(page, [before]), "a repeat is answered as stored").toEqual(OK);
  expect(await v0(server)).toEqual(OK);
  await setSize(0.95 * BYTES_MAX - 1);
  expect(await v0(server)).toEqual(OK);
  await setSize(0.95 * BYTES_MAX);
  expect(await v0(server)).toEqual(LIMITED);
  const batch = [seen()];
  const { body } = await call("POST", "/i/v1/analytics/events", { key: server, body: { batch } });
  expect(body.results[batch[0]?.uuid ?? ""]).toEqual({ result: "drop", details: "the database is almost full" });
  const stored = await env.DB.prepare("SELECT count(*) AS n FROM analytics_events WHERE environment_id = ?");
  expect(await stored.bind(app.environments.live.id).first("n")).toBe(3);
});

it("near the maximum size of the database, grants, debits and exports continue", async () => {
  const { app, call } = await world();
  await makePack(app.appId, "Pack", [{ amountMinor: 100_000, unit: "tokens" }]);
  await setSize(BYTES_MAX);
  const key = app.keys.sk_live;
  const post = (path: string, body: object) => call("POST", `/api/v1/${path}`, { key, body });
  const event = { eventId: "e", userId: "ana", event: "chat", quantities: { tokens: 1 } };
  for (const [path, body] of [
    ["credits/grant", { userId: "ana", packId: "Pack" }],
    ["usage/events", event],
    ["consent", { distinctId: "ana", purpose: "p", decision: "granted" }],
    ["export-person", { distinctId: "ana" }],
  ] as const) {
    expect((await post(path, body)).status, path).toBe(200);
  }
  expect((await exportOf(call, app, "ana")).consentLog).toHaveLength(1);
});

it("near the maximum size of the database, the limit is reported once a day by `limits.reached`, and in the limits", async () => {
  const { app, call, v0 } = await world();
  await makeEndpoint(app.environments.live, ["limits.*"]);
  await setSize(BYTES_MAX);
  for (let times = 0; times < 3; times++) expect(await v0(app.keys.pk_live)).toEqual(LIMITED);
  expect((await storedMessages(app.environments.live)).map(({ data }) => data)).toEqual([
    { limit: "databaseBytes", environment: "live" },
  ]);
  const path = `/api/v1/admin/apps/${app.appId}/limits?mode=live`;
  const { reached } = (await call("GET", path, { key: env.ADMIN_TOKEN })).body;
  expect(reached).toEqual([{ limit: "databaseBytes", at: "2026-01-15T12:00:00.000Z" }]);
});

it("near the maximum size of the database, the dashboard warns on the overview from 80 % on, and shows the limit once it was reached", async () => {
  const { app, clock, v0 } = await world();
  const browser = browse(clock, { DATABASE_BYTES_MAX: `${BYTES_MAX}` });
  await browser.signIn();
  const read = async (path: string) => (await browser.get(`/admin/apps/${app.appId}/live${path}`)).text();
  await setSize(0.8 * BYTES_MAX - 1);
  expect(await read("/overview")).not.toContain("% full");
  await setSize(0.8 * BYTES_MAX);
  expect(await read("/overview")).toMatch(/is 80 % full\.<.*>Analytics by publishable and relay keys are not stored/s);
  await setSize(0.95 * BYTES_MAX);
  expect(await read("/overview")).toMatch(/is 95 % full\.<.*>Analytics are not stored any more/s);
  expect(await read("/limits")).not.toContain("Database almost full");
  await v0(app.keys.pk_live);
  expect(await read("/limits")).toContain("Database almost full");
});

const clock = new Clock();

it("the size is the file's, which the cron writes, and freed space no longer counts once the file has grown", async () => {
  await setSize(1, 1);
  expect(await runPart(sizePart.work, makeAdminCtx(clock))).toEqual([]);
  const measured = await sizeOf();
  expect(measured?.bytes).toBeGreaterThan(100_000);
  expect(measured?.freed).toBe(0);
  await setSize(measured?.bytes ?? 0, 77);
  await runPart(sizePart.work, makeAdminCtx(clock));
  expect(await sizeOf()).toEqual({ bytes: measured?.bytes, freed: 77 });
});

it("the size is less by the data that retention deletes, so that analytics may continue", async () => {
  const { app, clock, v0 } = await world();
  await send(makeClient(clock), app.keys.pk_live, [{ event: "seen", distinct_id: "ana", properties: { a: 1 } }]);
  await setSize(0.8 * BYTES_MAX);
  expect(await v0(app.keys.pk_live)).toEqual(LIMITED);
  clock.advance(40 * DAY_MS);
  const settings = readSettings(bound({ ANALYTICS_RETENTION_DAYS: "30" }));
  await runPart(deleteOldAnalytics, { ...makeAdminCtx(clock), settings });
  const freed = (await sizeOf())?.freed ?? 0;
  expect(freed).toBeGreaterThanOrEqual(400 + 2 * 3 + 4 + 7);
  expect(await v0(app.keys.pk_live)).toEqual(OK);
});

it("the size is less by the data that an erasure deletes", async () => {
  const { app, call, clock } = await world();
  const events = Array.from({ length: 3 }, () => ({ event: "seen", distinct_id: "bo", properties: { a: 1 } }));
  await send(makeClient(clock), app.keys.sk_live, events);
  await setSize(BYTES_MAX);
  const body = { distinctId: "bo" };
  expect((await call("POST", "/api/v1/erase-person", { key: app.keys.sk_live, body })).status).toBe(200);
  // Three events, without their ids and names, and the id's record.
  expect(await sizeOf()).toEqual({ bytes: BYTES_MAX, freed: 3 * (400 + 7) + 600 + 3 * 2 });
  await call("POST", "/api/v1/erase-person", { key: app.keys.sk_live, body });
  expect((await sizeOf())?.freed).toBe(3 * (400 + 7) + 600 + 3 * 2);
});

type Shape = (n: number) => { event: string; distinct_id: string; properties: object };
const SHAPES: readonly (readonly [name: string, make: Shape])[] = [
  ["small events, each of a new id", (n) => ({ event: "e", distinct_id: `${n}`, properties: {} })],
  ["small events of one id", () => ({ event: "e", distinct_id: "one", properties: {} })],
  ["events of ids of 200 characters", (n) => ({ event: "e", distinct_id: `${n}`.padEnd(200, "€"), properties: {} })],
  ["events of long names", (n) => ({ event: "€".repeat(200), distinct_id: `${n % 9}`, properties: {} })],
  [
    "events that link a device of 200 characters",
    (n) => ({
      event: "$identify",
      distinct_id: `user ${n % 3}`,
      properties: { $anon_distinct_id: `0194685f-8a3c-7d11-9f2b-${`${n}`.padStart(176, "0")}` },
    }),
  ],
  [
    "events that set properties",
    (n) => ({ event: "e", distinct_id: `${n}`, properties: { $set: { name: "x".repeat(900) } } }),
  ],
  [
    "events that set e-mail addresses, which are in an index",
    (n) => ({ event: "e", distinct_id: `${n}`, properties: { $set: { email: `${n}@`.padEnd(254, "x") } } }),
  ],
];

it.each(SHAPES)("the database grows by no more than the counted bytes of %s", async (_name, make) => {
  const { app, call, clock } = await world();
  const [database] = makeAdminCtx(clock).databases;
  const sizeBefore = (await database?.readSize()) ?? 0;
  const COUNT = 3_000;
  for (let from = 0; from < COUNT; from += 500) {
    const batch = Array.from({ length: 500 }, (_, n) => make(from + n));
    expect(await call("POST", "/batch/", { body: { api_key: app.keys.pk_live, batch } })).toMatchObject({
      status: 200,
    });
  }
  const path = `/api/v1/admin/apps/${app.appId}/limits?mode=live`;
  const { bytes } = (await call("GET", path, { key: env.ADMIN_TOKEN })).body.today;
  const grown = ((await database?.readSize()) ?? 0) - sizeBefore;
  console.info(`${COUNT} events: ${grown} bytes of the file, ${bytes} counted`);
  expect(grown).toBeGreaterThan(COUNT);
  expect(grown).toBeLessThanOrEqual(bytes);
});
