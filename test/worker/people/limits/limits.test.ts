import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { DAY_MS } from "../../../../src/lib/time.ts";
import { analyticsDefaults } from "../../../../src/people/limits/daily-limits.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { faultyD1 } from "../../../support/faulty-d1.ts";
import { APPS } from "../../../support/paths.ts";
import { LIMITED, OK } from "../../../support/people.ts";
import { expectError } from "../../../support/rejections.ts";
import { makeAccount } from "../../../support/seed-rows.ts";
import { makeEndpoint, storedMessages } from "../../../support/webhooks.ts";
import { type Bindings, Clock, inTurn, makeApp, makeClient } from "../../../support/world.ts";

interface Event {
  readonly uuid: string;
  readonly event: string;
  readonly distinct_id: string;
  readonly properties: object;
}

let events = 0;
const uuidOf = (n: number) => `00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;
const seen = (id = "u", properties: object = {}): Event => ({
  uuid: uuidOf(events++),
  event: "seen",
  distinct_id: id,
  properties,
});
const many = (count: number, id = "u", properties: object = {}) =>
  Array.from({ length: count }, () => seen(id, properties));

async function world(limits: object | null = null, bindings: Bindings = {}) {
  const clock = new Clock();
  const app = await makeApp();
  const client = (others: Bindings = {}) => makeClient(clock, { ...bindings, ...others });
  const call = client();
  const path = `${APPS}/${app.appId}/limits`;
  const set = (analytics: unknown, mode = "live") =>
    call("PUT", path, { key: env.ADMIN_TOKEN, body: { mode, analytics } });
  const read = async (mode = "live") => (await call("GET", `${path}?mode=${mode}`, { key: env.ADMIN_TOKEN })).body;
  if (limits !== null) expect((await set(limits)).status).toBe(200);
  const v0 = (batch: readonly Event[], key = app.keys.pk_live, by = call) =>
    by("POST", "/batch/", { body: { api_key: key, batch } });
  const v1 = (batch: readonly Event[], key = app.keys.pk_live, by = call) =>
    by("POST", "/i/v1/analytics/events", { key, body: { batch } });
  const stored = async (id?: string) => {
    const { results } = await env.DB.prepare(
      "SELECT distinct_id AS id, uuid FROM analytics_events WHERE environment_id = ? AND ?2 IN ('', distinct_id)",
    )
      .bind(app.environments.live.id, id ?? "")
      .all();
    return results.length;
  };
  return { app, clock, client, call, path, set, read, v0, v1, stored };
}

const utf8Length = (text: string) => new TextEncoder().encode(text).length;
/** The counted bytes of a "seen" event, and of the record of an id (L3). */
const ofEvent = (id: string, properties: object) =>
  400 + 2 * utf8Length(id) + "seen".length + utf8Length(JSON.stringify(properties));
const ofRecord = (id: string) => 600 + 3 * utf8Length(id);

it("the limits of an environment are the defaults until they are set, and a missing value is again the default", async () => {
  const { app, set, read } = await world();
  const none = { day: "2026-01-15", events: 0, bytes: 0, eventsOfOneId: 0, bytesOfOneId: 0 };
  const plain = { appId: app.appId, mode: "live", analytics: analyticsDefaults, today: none, reached: [] };
  expect(await read()).toEqual(plain);
  expect(analyticsDefaults).toEqual({
    eventsADay: 1_000_000,
    bytesADay: 1_073_741_824,
    eventsADayOfOneId: 100_000,
    bytesADayOfOneId: 104_857_600,
  });
  const changed = { ...plain, analytics: { ...analyticsDefaults, eventsADay: 5 } };
  expect((await set({ eventsADay: 5 })).body).toEqual(changed);
  expect((await set({ eventsADay: 5 })).body).toEqual(changed);
  expect(await read("test")).toEqual({ ...plain, mode: "test" });
  expect((await set({ bytesADay: 0 })).body.analytics).toEqual({ ...analyticsDefaults, bytesADay: 0 });
  expect((await set(null)).body).toEqual(plain);
  const { results } = await env.DB.prepare("SELECT details FROM admin_audit WHERE app_id = ? ORDER BY seq")
    .bind(app.appId)
    .all<{ details: string }>();
  expect(results.map(({ details }) => JSON.parse(details))).toEqual([
    { mode: "live", eventsADay: 5 },
    { mode: "live", bytesADay: 0 },
    { mode: "live" },
  ]);
});

it("the limits of an environment are whole numbers only", async () => {
  const { set, read, call, path } = await world();
  for (const value of [-1, 1.5, "5", null, 10 ** 16]) {
    expectError(await set({ eventsADay: value }), "invalid_request", "analytics.eventsADay");
  }
  expectError(await set({ events: 5 }), "invalid_request", "analytics.events");
  expectError(await set(undefined), "invalid_request", "analytics");
  expectError(await set({}, "both"), "invalid_request", "mode");
  expectError(await call("GET", path, { key: env.ADMIN_TOKEN }), "invalid_request", "mode");
  expect((await read()).analytics).toEqual(analyticsDefaults);
});

it("the limits of an environment have the same defaults in the database as in the API", async () => {
  const trigger = await env.DB.prepare(
    "SELECT sql FROM sqlite_schema WHERE name = 'analytics_counts_within_limits'",
  ).first<string>("sql");
  for (const [limit, value] of Object.entries(analyticsDefaults)) expect(trigger).toContain(`'${limit}', ${value})`);
});

/** The limit of the environment with which ids without a verified mark may fill `most`. */
const shareOf = (most: number) => Math.ceil((4 * most) / 3);

it("above a limit of the environment nothing of a request is stored, which both protocols report, and nothing of a later request", async () => {
  const { v0, v1, stored, read } = await world({ eventsADay: 7 });
  expect((await v0(many(3))).body).toEqual(OK);
  const three = many(3, "v");
  expect((await v0(three)).body).toEqual(LIMITED);
  const dropped = { result: "drop", details: "the day's limits of analytics are reached" };
  expect((await v1(three)).body.results).toEqual(Object.fromEntries(three.map(({ uuid }) => [uuid, dropped])));
  expect(await stored()).toBe(3);
  const answer = await v0([seen()]);
  expect([answer.status, answer.body]).toEqual([200, LIMITED]);
  expect(await stored()).toBe(3);
  const { today, reached } = await read();
  expect(today).toMatchObject({ events: 3, eventsOfOneId: 3 });
  expect(reached).toEqual([{ limit: "eventsADay", at: "2026-01-15T12:00:00.000Z" }]);
});

it("above a limit of the environment bytes are counted as they are stored: the event with its id, and the record of a new id", async () => {
  const { v0, stored, read } = await world({ bytesADay: shareOf(2 * (ofEvent("ü", { a: "ż" }) + ofRecord("ü"))) });
  expect((await v0([seen("ü", { a: "ż" })])).body).toEqual(OK);
  expect((await read()).today.bytes).toBe(400 + 2 * 2 + 4 + 10 + 600 + 3 * 2);
  expect((await v0([seen("ö", { a: "ż" })])).body).toEqual(OK);
  const { bytes, bytesOfOneId } = (await read()).today;
  expect([bytes, bytesOfOneId]).toEqual([2 * (418 + 606), 418 + 606]);
  expect((await v0([seen("ü", {})])).body).toEqual(LIMITED);
  expect(await stored()).toBe(2);
  expect((await read()).reached).toMatchObject([{ limit: "bytesADay" }]);
});

it("above a limit of the environment what `$set` stores and rewrites counts, and so does the record of a claimed device", async () => {
  const { v0, read, stored } = await world();
  const bytes = async () => (await read()).today.bytes;
  const setting = (value: unknown) => seen("ana", { $set: { plan: value } });
  await v0([setting("pro")]);
  const first = ofEvent("ana", { $set: { plan: "pro" } }) + ofRecord("ana") + '{"plan":"pro"}'.length;
  expect(await bytes()).toBe(first);
  await v0([setting("large")]);
  const second = first + ofEvent("ana", { $set: { plan: "large" } }) + '{"plan":"large"}'.length;
  expect(await bytes()).toBe(second);
  const shorter = setting("x");
  for (let times = 0; times < 2; times++) await v0([shorter]);
  const third = second + ofEvent("ana", { $set: { plan: "x" } }) + '{"plan":"x"}'.length;
  expect(await bytes()).toBe(third);
  const device = "0194685f-8a3c-7d11-9f2b-000000000001";
  const identify = { ...seen("ana", { $anon_distinct_id: device }), event: "$identify" };
  await v0([identify]);
  const ofIdentify = ofEvent("ana", { $anon_distinct_id: device }) + "$identify".length - "seen".length;
  expect(await bytes()).toBe(third + ofIdentify + ofRecord(device));
  expect((await read()).today.bytesOfOneId).toBe(third + ofIdentify);
  expect(await stored()).toBe(4);
});

it("above a limit of the environment nothing of a large request is stored, and everything if it fits", async () => {
  const large = (count: number) => many(count, "u", { text: "x".repeat(200_000) });
  const { set, v0, v1, stored, read } = await world({ eventsADay: 4 });
  const four = large(4);
  expect((await v0(four)).body).toEqual(LIMITED);
  const drops = Object.values<{ result: string }>((await v1(four)).body.results);
  expect(drops.map(({ result }) => result)).toEqual(Array(4).fill("drop"));
  expect(await stored()).toBe(0);
  const bytes = 4 * ofEvent("u", four[0]?.properties ?? {}) + ofRecord("u");
  await set({ bytesADay: shareOf(bytes) - 2 });
  expect((await v0(four)).body).toEqual(LIMITED);
  expect(await stored()).toBe(0);
  expect((await read()).reached).toMatchObject([{ limit: "bytesADay" }, { limit: "eventsADay" }]);
  await set({ bytesADay: shareOf(bytes) });
  expect((await v0(four)).body).toEqual(OK);
  expect((await v0(four)).body).toEqual(OK);
  // If a request repeats stored events, only its new events must fit.
  await set({ eventsADay: 7 });
  expect((await v0([...four, ...large(1)])).body).toEqual(OK);
  expect((await read()).today).toMatchObject({ events: 5, bytes: bytes + ofEvent("u", four[0]?.properties ?? {}) });
});

it("above a limit of the environment a repeat is answered as stored, and counts once", async () => {
  const { v0, v1, stored, read } = await world({ eventsADay: 4 });
  const three = many(3);
  for (let times = 0; times < 3; times++) expect((await v0(three)).body).toEqual(OK);
  expect(Object.values((await v1(three)).body.results)).toEqual(Array(3).fill({ result: "ok" }));
  expect((await v0([...three, ...three])).body).toEqual(OK);
  expect((await read()).today.events).toBe(3);
  expect((await read()).reached).toEqual([]);
  expect((await v0([...three, seen()])).body).toEqual(LIMITED);
  expect(await stored()).toBe(3);
  // From then on every answer says so, whatever is stored.
  expect((await v0(three)).body).toEqual(LIMITED);
});

it("above a limit of the environment secret keys continue, and are not counted", async () => {
  const { app, v0, v1, stored, read } = await world({ eventsADay: 2, eventsADayOfOneId: 1 });
  await v0([seen()]);
  expect((await v0(many(10), app.keys.sk_live)).body).toEqual(OK);
  expect(Object.values((await v1(many(10), app.keys.sk_live)).body.results)).toEqual(Array(10).fill({ result: "ok" }));
  expect(await stored()).toBe(21);
  expect((await read()).today).toMatchObject({ events: 1, eventsOfOneId: 1 });
  expect((await v0([seen()])).body).toEqual(LIMITED);
});

it("above a limit of the environment counts start again with the next UTC day, and a changed limit takes effect at once", async () => {
  const { clock, v0, set, read } = await world({ eventsADay: 3 });
  await v0(many(2));
  expect((await v0([seen()])).body).toEqual(LIMITED);
  await set({ eventsADay: 4 });
  expect((await v0([seen()])).body).toEqual(OK);
  await set({ eventsADay: 2 });
  expect((await v0([seen()])).body).toEqual(LIMITED);
  clock.ms = Math.ceil(clock.ms / DAY_MS) * DAY_MS - 1;
  expect((await v0([seen()])).body).toEqual(LIMITED);
  clock.advance(1);
  expect((await v0([seen()])).body).toEqual(OK);
  expect((await read()).today).toMatchObject({ day: "2026-01-16", events: 1, eventsOfOneId: 1 });
  expect((await v0([seen()])).body).toEqual(LIMITED);
  expect((await read()).reached.map(({ at }: { at: string }) => at.slice(0, 10))).toEqual(["2026-01-16", "2026-01-15"]);
});

it("above a limit of the environment no other environment is affected", async () => {
  const { app, v0 } = await world({ eventsADay: 0 });
  expect((await v0([seen()])).body).toEqual(LIMITED);
  expect((await v0([seen()], app.keys.pk_test)).body).toEqual(OK);
});

it("above a limit of the environment exactly as many of racing requests are stored as fit, over many isolates", async () => {
  const { app, clock, stored, read } = await world({ eventsADay: 67 });
  const call = makeClient(clock, {}, undefined, inTurn(5));
  const send = (n: number) =>
    call("POST", "/batch/", { body: { api_key: app.keys.pk_live, batch: many(7, `id-${n}`) } });
  const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => send(n)));
  expect(answers.filter(({ body }) => body.quota_limited === undefined)).toHaveLength(7);
  expect(await stored()).toBe(49);
  expect((await read()).today).toMatchObject({ events: 49 });
});

it("above a limit of the environment dropped events set and link nothing", async () => {
  const { app, v0 } = await world({ eventsADay: 2 });
  await v0([seen("ana")]);
  const device = "0194685f-8a3c-7d11-9f2b-000000000001";
  const identify = { ...seen("ana", { $anon_distinct_id: device, $set: { a: 1 } }), event: "$identify" };
  expect((await v0([identify])).body).toEqual(LIMITED);
  const rows = await env.DB.prepare(
    "SELECT distinct_id AS id, claimed_by AS by FROM distinct_ids WHERE environment_id = ?",
  )
    .bind(app.environments.live.id)
    .all();
  expect(rows.results).toEqual([{ id: "ana", by: null }]);
});

it("above a limit of one id only that id's events are dropped", async () => {
  const { v0, v1, stored, read } = await world({ eventsADayOfOneId: 3 });
  expect((await v0([...many(3, "loud"), ...many(2, "quiet")])).body).toEqual(OK);
  const batch = [seen("loud"), seen("quiet"), seen("loud"), seen("other")];
  const { results } = (await v1(batch)).body;
  expect(batch.map(({ uuid }) => results[uuid].result)).toEqual(["drop", "ok", "drop", "ok"]);
  expect(results[batch[0]?.uuid ?? ""].details).toContain("eventsADayOfOneId");
  expect([await stored("loud"), await stored("quiet"), await stored("other")]).toEqual([3, 3, 1]);
  expect((await v0([seen("loud"), seen("other")])).body).toEqual(LIMITED);
  expect([await stored("loud"), await stored("other")]).toEqual([3, 2]);
  const { today, reached } = await read();
  expect(today).toMatchObject({ events: 8, eventsOfOneId: 3 });
  expect(reached).toMatchObject([{ limit: "eventsADayOfOneId" }]);
});

it("above a limit of one id only that id's events are dropped, by bytes too", async () => {
  const { v1, stored } = await world({ bytesADayOfOneId: ofEvent("quiet", { a: 1 }) + ofRecord("quiet") });
  const batch = [seen("loud", { a: "twelve bytes" }), seen("quiet", { a: 1 })];
  const { results } = (await v1(batch)).body;
  expect(batch.map(({ uuid }) => results[uuid].result)).toEqual(["drop", "ok"]);
  expect([await stored("loud"), await stored("quiet")]).toEqual([0, 1]);
});

it("above a limit of one id a repeat is answered as stored", async () => {
  const { v1, set } = await world({ eventsADayOfOneId: 2 });
  const two = many(2);
  await v1(two);
  const again = [...two, seen("u")];
  const { results } = (await v1(again)).body;
  expect(again.map(({ uuid }) => results[uuid].result)).toEqual(["ok", "ok", "drop"]);
  // A lowered limit drops neither repeats nor other ids' events.
  await set({ eventsADayOfOneId: 1 });
  const mixed = [...two, seen("other")];
  const answers = (await v1(mixed)).body.results;
  expect(mixed.map(({ uuid }) => answers[uuid].result)).toEqual(["ok", "ok", "ok"]);
});

it("above a limit of one id a shared id has no limit of its own, and does not count as the largest id", async () => {
  const { v0, v1, stored, read } = await world({ eventsADayOfOneId: 2, bytesADayOfOneId: 3_000, eventsADay: 15 });
  for (const id of ["anonymous", " 'Guest' "]) expect((await v0(many(4, id))).body).toEqual(OK);
  const batch = [...many(3, "loud"), ...many(2, "anonymous")];
  const { results } = (await v1(batch)).body;
  expect(batch.map(({ uuid }) => results[uuid].result)).toEqual(["drop", "drop", "drop", "ok", "ok"]);
  expect((await v0([seen("quiet")])).body).toEqual(OK);
  expect([await stored("anonymous"), await stored("loud"), await stored()]).toEqual([6, 0, 11]);
  const quiet = ofEvent("quiet", {}) + ofRecord("quiet");
  expect((await read()).today).toMatchObject({ events: 11, eventsOfOneId: 1, bytesOfOneId: quiet });
  expect((await v0(many(1, "anonymous"))).body).toEqual(LIMITED);
});

it("above a limit of one id dropped events do not use up the environment's limit", async () => {
  const { v0, stored } = await world({ eventsADay: 6, eventsADayOfOneId: 2 });
  expect((await v0([...many(3, "loud"), ...many(2, "quiet")])).body).toEqual(LIMITED);
  expect([await stored("loud"), await stored("quiet")]).toEqual([0, 2]);
  expect((await v0(many(2, "other"))).body).toEqual(OK);
  expect((await v0([seen("last")])).body).toEqual(LIMITED);
});

it("above a limit of one id exactly as many of racing requests are stored as fit", async () => {
  const { app, clock, stored } = await world({ eventsADayOfOneId: 10 });
  const call = makeClient(clock, {}, undefined, inTurn(5));
  const send = () => call("POST", "/batch/", { body: { api_key: app.keys.pk_live, batch: many(3, "loud") } });
  const answers = await Promise.all(Array.from({ length: 12 }, send));
  expect(answers.filter(({ body }) => body.quota_limited === undefined)).toHaveLength(3);
  expect(await stored("loud")).toBe(9);
});

const countsOf = async (environmentId: number) => ({
  stored: await env.DB.prepare("SELECT count(*) AS n FROM analytics_events WHERE environment_id = ?")
    .bind(environmentId)
    .first("n"),
  counted: await env.DB.prepare("SELECT coalesce(sum(events), 0) AS n FROM analytics_days WHERE environment_id = ?")
    .bind(environmentId)
    .first("n"),
  ofIds: await env.DB.prepare("SELECT coalesce(sum(day_events), 0) AS n FROM distinct_ids WHERE environment_id = ?")
    .bind(environmentId)
    .first("n"),
});

it("the count equals what is stored, whichever trip fails, and even if the client sends the request again", async () => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  for (const fault of ["before", "after"] as const) {
    for (let at = 1; at <= 4; at++) {
      const { app, client, v0 } = await world({ eventsADayOfOneId: 2 });
      const faulty = faultyD1(env.DB);
      const call = client({ DB: faulty.d1 });
      const batch = [...many(3, "loud"), ...many(2, "quiet")];
      faulty.plan({ fault, at });
      const first = await v0(batch, app.keys.pk_live, call);
      if (first.status !== 503) expect(first.body).toEqual(LIMITED);
      expect((await v0(batch)).status).toBe(200);
      const counts = await countsOf(app.environments.live.id);
      expect(counts, `${fault} ${at}`).toEqual({ stored: 2, counted: 2, ofIds: 2 });
    }
  }
});

it("the count costs one written row and no trip", async () => {
  const { app, client, v0 } = await world();
  const counting = countingD1(env.DB);
  const call = client({ DB: counting.d1 });
  const cost = async (batch: readonly Event[], key: string) => {
    counting.spent();
    await v0(batch, key, call);
    return counting.spent();
  };
  await v0([seen("u")]);
  const secret = await cost([seen("u")], app.keys.sk_live);
  const open = await cost([seen("u")], app.keys.pk_live);
  expect(open).toMatchObject({ roundTrips: 1, rowsWritten: secret.rowsWritten + 1 });
  expect(open.rowsRead - secret.rowsRead).toBeLessThanOrEqual(15);
});

it("the count reads a few rows and writes nothing when the day is full, in two trips", async () => {
  const { app, client, v0 } = await world({ eventsADay: 2 });
  const counting = countingD1(env.DB);
  const call = client({ DB: counting.d1 });
  await v0([seen("u")], app.keys.pk_live, call);
  // The first request above the limit records this.
  expect((await v0(many(100, "v"), app.keys.pk_live, call)).body).toEqual(LIMITED);
  counting.spent();
  expect((await v0(many(100, "v"), app.keys.pk_live, call)).body).toEqual(LIMITED);
  const cost = counting.spent();
  expect(cost).toMatchObject({ roundTrips: 2, rowsWritten: 0 });
  expect(cost.rowsRead).toBeLessThanOrEqual(12);
  const { results } = await env.DB.prepare("SELECT limit_name FROM limits_reached WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .all();
  expect(results).toEqual([{ limit_name: "eventsADay" }]);
});

const grant = (w: Awaited<ReturnType<typeof world>>, userId: string) => makeAccount(w.app.environments.live.id, userId);

it("ids without a verified mark fill three quarters of the day, and from then on every public answer says so, whatever is stored", async () => {
  const w = await world({ eventsADay: 8 });
  await grant(w, "payer");
  await w.v0([seen("known")], w.app.keys.sk_live);
  expect((await w.v0(many(6, "stranger"))).body).toEqual(OK);
  const batch = [seen("stranger"), seen("payer"), seen("anonymous"), seen("known")];
  const { results } = (await w.v1(batch)).body;
  expect(batch.map(({ uuid }) => results[uuid].result)).toEqual(Array(4).fill("drop"));
  expect([await w.stored("stranger"), await w.stored("payer"), await w.stored("known")]).toEqual([6, 1, 2]);
  expect((await w.v0([seen("payer")])).body).toEqual(LIMITED);
  expect([await w.stored("payer"), await w.stored("anonymous")]).toEqual([1, 0]);
  expect((await w.v0([seen("known")], w.app.keys.sk_live)).body).toEqual(OK);
  expect((await w.read()).today.events).toBe(8);
  expect((await w.read()).reached).toMatchObject([{ limit: "eventsADay" }]);
});

it("ids without a verified mark fill three quarters by bytes too, and a mark that a publishable key sets is none", async () => {
  const one = ofEvent("ana", {}) + ofRecord("ana");
  const w = await world({ bytesADay: 4 * one });
  const identified = { ...seen("bob"), event: "$identify" };
  await w.v0([seen("ana"), seen("eve"), seen("ann")]);
  expect((await w.v0([identified])).body).toEqual(LIMITED);
  expect((await w.v0([seen("bob", { $is_identified: true })])).body).toEqual(LIMITED);
  expect(await w.stored("bob")).toBe(0);
});

it("ids without a verified mark do not share in what users with a mark send, who may fill the whole day", async () => {
  const w = await world({ eventsADay: 4 });
  await grant(w, "payer");
  for (let n = 0; n < 4; n++) expect((await w.v0([seen("payer")])).body).toEqual(OK);
  expect((await w.v0([seen("payer")])).body).toEqual(LIMITED);
  expect(await w.stored()).toBe(4);
});

it("limits.reached is sent once a day for each limit, by the first isolate that reaches it", async () => {
  const { app, client, clock, v0, v1, call } = await world({ eventsADay: 3, eventsADayOfOneId: 1 });
  await makeEndpoint(app.environments.live, ["limits.*"]);
  const reached = async () =>
    (await storedMessages(app.environments.live)).map(({ data, deliveries }) => ({ ...data, deliveries }));
  expect((await v1(many(2, "a"))).status).toBe(200);
  const common = { environment: "live", deliveries: 1 };
  expect(await reached()).toEqual([{ limit: "eventsADayOfOneId", ...common }]);
  await v0(many(2, "b"));
  await v0([seen("c"), seen("d")]);
  await Promise.all(Array.from({ length: 6 }, () => v0([seen("e"), seen("f"), seen("g")], app.keys.pk_live, client())));
  const both = [
    { limit: "eventsADay", ...common },
    { limit: "eventsADayOfOneId", ...common },
  ];
  const byLimit = (rows: { limit: string }[]) => rows.toSorted((a, b) => (a.limit < b.limit ? -1 : 1));
  expect(byLimit(await reached())).toEqual(byLimit(both));
  clock.advance(DAY_MS);
  await v0([seen("e"), seen("f"), seen("g")], app.keys.pk_live, call);
  expect(await reached()).toHaveLength(3);
});

it("limits.reached is sent once whichever trip fails, and not at all if no endpoint receives it", async () => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  for (const fault of ["before", "amid", "after"] as const) {
    for (let at = 1; at <= 3; at++) {
      const faulty = faultyD1(env.DB);
      const { app, v0, client } = await world({ eventsADay: 0 });
      await makeEndpoint(app.environments.live, null);
      faulty.plan({ fault, at });
      await v0([seen()], app.keys.pk_live, client({ DB: faulty.d1 }));
      faulty.plan(null);
      await v0([seen()]);
      expect((await storedMessages(app.environments.live)).map(({ data }) => data.limit)).toEqual(["eventsADay"]);
    }
  }
  const { app, v0 } = await world({ eventsADay: 0 });
  await makeEndpoint(app.environments.live, ["credits.*", "limits.reached.*"]);
  await v0([seen()]);
  expect(await storedMessages(app.environments.live)).toEqual([]);
});
