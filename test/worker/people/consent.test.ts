import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { DAY_MS, HOUR_MS } from "../../../src/lib/time.ts";
import { END_USER_SETTING } from "../../support/end-user-setting.ts";
import { faultyD1 } from "../../support/faulty-d1.ts";
import { userToken } from "../../support/keyed-routes.ts";
import { exportOf } from "../../support/people.ts";
import { describeRejections, expectError } from "../../support/rejections.ts";
import { Clock, makeApp, makeClient, type TestApp } from "../../support/world.ts";

const PATH = "/api/v1/consent";

async function logOf(app: TestApp, distinctId: string) {
  const { results } = await env.DB.prepare(
    "SELECT seq, id, purpose, decision, gpc FROM consent_log WHERE environment_id = ? AND distinct_id = ? ORDER BY seq",
  )
    .bind(app.environments.live.id, distinctId)
    .all();
  return results;
}

describeRejections(`POST ${PATH}`, {
  prepare: () => ({ method: "POST", path: PATH, body: { distinctId: "ana", purpose: "ads", decision: "granted" } }),
  publishable: "end-user",
  // Another application may store consent for the same id, which is then its own person's.
  stranger: (answer) => expect(answer.body.distinctId).toBe("ana"),
});

it("consent is appended with all its fields, and returned as it is stored", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  const key = app.keys.sk_live;
  const body = {
    distinctId: "ana",
    purpose: "analytics",
    decision: "granted",
    method: "banner",
    noticeVersion: "7",
    source: "/shop",
    gpc: false,
    isDevice: false,
    occurredAt: "2026-01-15T12:30:00+01:00",
  };
  const first = await call("POST", PATH, { key, body });
  expect(first.status).toBe(200);
  expect(first.body).toEqual({
    ...body,
    consentId: expect.stringMatching(/^con_[0-9A-Za-z]{22}$/),
    occurredAt: "2026-01-15T11:30:00.000Z",
    receivedAt: "2026-01-15T12:00:00.000Z",
  });
  clock.advance(1_000);
  const second = await call("POST", PATH, {
    key,
    body: { distinctId: "ana", purpose: "ads", decision: "withdrawn" },
  });
  const none = { method: null, noticeVersion: null, source: null, gpc: null };
  const now = "2026-01-15T12:00:01.000Z";
  expect(second.body).toMatchObject({ ...none, occurredAt: now, receivedAt: now });
  expect(await logOf(app, "ana")).toMatchObject([
    { seq: 1, id: first.body.consentId, decision: "granted", gpc: 0 },
    { seq: 2, id: second.body.consentId, decision: "withdrawn", gpc: null },
  ]);
  expect((await exportOf(call, app, "ana")).consentLog).toEqual([first.body, second.body]);
});

it("consent may be given in a browser, only by the end-user", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp(END_USER_SETTING);
  const key = app.keys.pk_live;
  const say = async (distinctId: string, user?: string) =>
    call("POST", PATH, {
      key,
      body: { distinctId, purpose: "ads", decision: "denied", gpc: true },
      headers: {
        origin: "https://shop.example",
        ...(user === undefined ? {} : { "x-user-token": await userToken(user, clock) }),
      },
    });
  const answer = await say("ana", "ana");
  expect(answer.status).toBe(200);
  expect(answer.headers.get("access-control-allow-origin")).toBe("*");
  expect(answer.headers.get("x-d1-bookmark")).not.toBeNull();
  expectError(await say("bob", "ana"), "forbidden", "distinctId");
  expectError(await say("ana"), "invalid_user_token");
  expect(await logOf(app, "ana")).toHaveLength(1);
  expect(await logOf(app, "bob")).toHaveLength(0);

  const unset = await makeApp();
  const body = { distinctId: "ana", purpose: "ads", decision: "denied" };
  expectError(await call("POST", PATH, { key: unset.keys.pk_live, body }), "forbidden");
});

it("consent keeps all of thirty concurrent decisions", async () => {
  const call = makeClient(new Clock());
  const app = await makeApp();
  const body = { distinctId: "ana", purpose: "ads", decision: "granted" };
  const answers = await Promise.all(
    Array.from({ length: 30 }, () => call("POST", PATH, { key: app.keys.sk_live, body })),
  );
  expect(new Set(answers.map((answer) => answer.body.consentId)).size).toBe(30);
  expect(await logOf(app, "ana")).toHaveLength(30);
});

it("consent is stored once if its response is lost", async () => {
  const faulty = faultyD1(env.DB);
  const call = makeClient(new Clock(), { DB: faulty.d1 });
  const app = await makeApp();
  const body = { distinctId: "ana", purpose: "ads", decision: "granted" };
  const key = app.keys.sk_live;
  await call("POST", PATH, { key, body });
  faulty.plan({ fault: "after", at: 1 });
  expect((await call("POST", PATH, { key, body })).status).toBe(200);
  expect(faulty.trips()).toBe(2);
  expect(await logOf(app, "ana")).toHaveLength(2);
});

it.each([
  ["distinctId", ""],
  ["distinctId", undefined],
  ["distinctId", "x".repeat(201)],
  ["purpose", ""],
  ["decision", "maybe"],
  ["method", ""],
  ["noticeVersion", 7],
  ["source", null],
  ["gpc", "yes"],
  ["occurredAt", "yesterday"],
  ["purposes", []],
])("consent is refused with a %s of %j, by the field's name", async (param, value) => {
  const call = makeClient(new Clock());
  const app = await makeApp();
  const body = { distinctId: "ana", purpose: "ads", decision: "granted", [param]: value };
  expectError(await call("POST", PATH, { key: app.keys.sk_live, body }), "invalid_request", param);
});

it("publishable keys may send 80 grants of an id a UTC day, and 100 entries including denied and withdrawn ones", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp(END_USER_SETTING);
  const { live } = app.environments;
  await env.DB.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 178)
     INSERT INTO consent_log (environment_id, distinct_id, seq, id, purpose, decision, is_device, day_place, occurred_at_ms, received_at_ms)
     SELECT ?1, 'ana', i, ?2 || i, 'ads', 'granted', 0, iif(i <= 100, i, i - 100), 0, CAST(?3 AS INTEGER) - iif(i <= 100, 86400000, 0) FROM n`,
  )
    .bind(live.id, `con_${app.appId}`, clock.ms)
    .run();
  const send = async (decision: string, distinctId = "ana") =>
    call("POST", PATH, {
      key: app.keys.pk_live,
      headers: { "x-user-token": await userToken(distinctId, clock) },
      body: { distinctId, purpose: "ads", decision },
    });
  const statuses: number[] = [];
  for (const decision of ["granted", "granted", "granted", ...Array(20).fill("withdrawn"), "denied", "granted"]) {
    statuses.push((await send(decision)).status);
  }
  expect(statuses).toEqual([200, 200, 429, ...Array(20).fill(200), 429, 429]);
  const refused = await send("denied");
  expectError(refused, "rate_limited");
  expect(refused.headers.get("retry-after")).toBe(String(12 * 3_600));
  expect(await logOf(app, "ana")).toHaveLength(200);
  expect((await send("granted", "bob")).status).toBe(200);
  const body = { distinctId: "ana", purpose: "ads", decision: "granted" };
  // Those by secret keys do not count, in either direction.
  for (let n = 0; n < 3; n++) expect((await call("POST", PATH, { key: app.keys.sk_live, body })).status).toBe(200);
  expectError(await send("denied"), "rate_limited");
  for (let n = 0; n < 101; n++)
    await call("POST", PATH, { key: app.keys.sk_live, body: { ...body, distinctId: "eve" } });
  expect((await send("granted", "eve")).status).toBe(200);
  clock.advance(12 * HOUR_MS);
  expect((await send("granted")).status).toBe(200);
});

it("an id's entries are counted by the real UTC day, however far a test clock moves meanwhile", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp(END_USER_SETTING);
  const move = async (days: number) => {
    const body = { now: new Date(clock.ms + days * DAY_MS).toISOString() };
    const path = `/api/v1/admin/apps/${app.appId}/clock`;
    expect((await call("PUT", path, { key: env.ADMIN_TOKEN, body })).body.status).toBe("ready");
  };
  const send = async () => {
    const headers = { "x-user-token": await userToken("ana", clock) };
    const body = { distinctId: "ana", purpose: "ads", decision: "granted" };
    return (await call("POST", PATH, { key: app.keys.pk_test, headers, body })).status;
  };
  const sendMany = async (count: number) => {
    const statuses = new Set<number>();
    for (let sent = 0; sent < count; sent++) statuses.add(await send());
    return [...statuses];
  };
  expect(await sendMany(30)).toEqual([200]);
  await move(1);
  expect(await sendMany(30)).toEqual([200]);
  clock.advance(HOUR_MS);
  await move(3);
  expect(await sendMany(20)).toEqual([200]);
  expect(await send()).toBe(429);
  await move(40);
  expect(await send()).toBe(429);
  clock.advance(11 * HOUR_MS);
  expect(await sendMany(80)).toEqual([200]);
  expect(await send()).toBe(429);
});

it("publishable keys may send as many entries of an environment a day as its limit of events, and secret keys any number", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp(END_USER_SETTING);
  const limits = { mode: "live", analytics: { eventsADay: 3 } };
  await call("PUT", `/api/v1/admin/apps/${app.appId}/limits`, { key: env.ADMIN_TOKEN, body: limits });
  const body = (distinctId: string) => ({ distinctId, purpose: "ads", decision: "withdrawn" });
  const send = async (distinctId: string) =>
    call("POST", PATH, {
      key: app.keys.pk_live,
      headers: { "x-user-token": await userToken(distinctId, clock) },
      body: body(distinctId),
    });
  const bySecret = (distinctId: string) => call("POST", PATH, { key: app.keys.sk_live, body: body(distinctId) });
  expect((await bySecret("zoe")).status).toBe(200);
  const answers = await Promise.all(["a", "b", "c", "d", "e"].map(send));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 429, 429]);
  const refused = await send("f");
  expectError(refused, "rate_limited");
  expect(refused.headers.get("retry-after")).toBe(String(12 * 3_600));
  expect(await logOf(app, "f")).toHaveLength(0);
  expect((await bySecret("f")).status).toBe(200);
  // Events are counted separately.
  const { body: captured } = await call("POST", "/batch/", {
    body: { api_key: app.keys.pk_live, batch: [{ event: "seen", distinct_id: "a" }] },
  });
  expect(captured).toEqual({ status: 1 });
  clock.advance(12 * HOUR_MS);
  expect((await send("f")).status).toBe(200);
});

const times: readonly (readonly [name: string, offsetMs: number, isNear: boolean])[] = [
  ["a day ago", -DAY_MS, true],
  ["a millisecond more than a day ago", -DAY_MS - 1, false],
  ["years ago", -900 * DAY_MS, false],
  ["5 minutes ahead", 300_000, true],
  ["a millisecond more than 5 minutes ahead", 300_001, false],
];
const sendAt = async (kind: "sk" | "pk", decision: string, offsetMs: number) => {
  const clock = new Clock();
  const app = await makeApp(END_USER_SETTING);
  const headers = { "x-user-token": await userToken("ana", clock) };
  const occurredAt = new Date(clock.ms + offsetMs).toISOString();
  const body = { distinctId: "ana", purpose: "ads", decision, occurredAt };
  const answer = await makeClient(clock)("POST", PATH, { key: app.keys[`${kind}_live`], headers, body });
  return { app, answer, occurredAt, receivedAt: new Date(clock.ms).toISOString() };
};

it.each(times)(
  "the time of a decision that a page sends is taken when it is near, and rejected for a grant otherwise: %s",
  async (_, offsetMs, isNear) => {
    const { app, answer, occurredAt } = await sendAt("pk", "granted", offsetMs);
    expect(answer.headers.get("purser-warning")).toBeNull();
    if (isNear) expect([answer.status, answer.body.occurredAt]).toEqual([200, occurredAt]);
    else expectError(answer, "invalid_request", "occurredAt");
    expect(await logOf(app, "ana")).toHaveLength(isNear ? 1 : 0);
  },
);

it.each(times.flatMap((time) => (["denied", "withdrawn"] as const).map((decision) => [decision, ...time] as const)))(
  "the time of a decision that a page sends is the arrival's, with a warning, for a %s of %s",
  async (decision, _, offsetMs, isNear) => {
    const { app, answer, occurredAt, receivedAt } = await sendAt("pk", decision, offsetMs);
    expect([answer.status, answer.body.occurredAt]).toEqual([200, isNear ? occurredAt : receivedAt]);
    const warning = answer.headers.get("purser-warning");
    if (isNear) expect(warning).toBeNull();
    else expect(warning).toMatch(/arrival was stored/);
    const { results } = await env.DB.prepare("SELECT occurred_at_ms AS at FROM consent_log WHERE environment_id = ?")
      .bind(app.environments.live.id)
      .all();
    expect(results).toEqual([{ at: Date.parse(isNear ? occurredAt : receivedAt) }]);
  },
);

it("the time of a decision that a page sends is any when a secret key sends it", async () => {
  for (const [, offsetMs] of times) {
    const { answer, occurredAt } = await sendAt("sk", "granted", offsetMs);
    expect([answer.status, answer.body.occurredAt]).toEqual([200, occurredAt]);
    expect(answer.headers.get("purser-warning")).toBeNull();
  }
});

it("the time of a decision that a page sends is measured by the environment's test clock", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp(END_USER_SETTING);
  const now = new Date(clock.ms + 30 * DAY_MS).toISOString();
  const path = `/api/v1/admin/apps/${app.appId}/clock`;
  expect((await call("PUT", path, { key: env.ADMIN_TOKEN, body: { now } })).body.status).toBe("ready");
  const headers = { "x-user-token": await userToken("ana", clock) };
  const body = (occurredAt: string) => ({ distinctId: "ana", purpose: "ads", decision: "granted", occurredAt });
  const send = (occurredAt: string) => call("POST", PATH, { key: app.keys.pk_test, headers, body: body(occurredAt) });
  expect((await send(now)).status).toBe(200);
  expectError(await send(new Date(clock.ms).toISOString()), "invalid_request", "occurredAt");
});
