import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it } from "vitest";
import { systemCtx } from "../../../../src/auth/system-ctx.ts";
import { readEnvironmentUsage } from "../../../../src/books/usage/environment-usage.ts";
import { randomId } from "../../../../src/lib/ids.ts";
import { DAY_MS, iso } from "../../../../src/lib/time.ts";
import { sumDaysOf } from "../../../support/cron.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { expectError } from "../../../support/rejections.ts";
import { isSoak } from "../../../support/soak.ts";
import {
  type Bindings,
  bound,
  Clock,
  makeAdminCtx,
  makeApp,
  makeClient,
  startIsolate,
  type TestApp,
} from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const FROM = "2026-01-01T00:00:00Z";
const TO = "2026-02-01T00:00:00Z";

async function makeWorld(bindings: Bindings = {}, app?: TestApp) {
  const clock = new Clock();
  const ownApp = app ?? (await makeApp());
  const call = makeClient(clock, bindings);
  let events = 0;
  const use = async (userId: string, fields: object = {}, mode: "live" | "test" = "live") => {
    const body = { userId, eventId: `e${events++}`, event: "chat", onShortage: "partial", ...fields };
    const answer = await call("POST", "/api/v1/usage/events", { key: ownApp.keys[`sk_${mode}`], body });
    expect(answer.status).toBe(200);
  };
  const cron = async () => {
    const root = systemCtx(bound(bindings), { isolate: {}, now: clock.now, newId: randomId });
    for (const environment of Object.values(ownApp.environments))
      expect(await sumDaysOf(root, environment)).toEqual([]);
  };
  const ask = (groupBy: string, { from = FROM, to = TO, mode = "live" } = {}) =>
    call("GET", `/api/v1/admin/apps/${ownApp.appId}/usage?mode=${mode}&from=${from}&to=${to}&groupBy=${groupBy}`, {
      key: env.ADMIN_TOKEN,
    });
  const totals = async (groupBy: string, span = {}) => {
    const { status, body } = await ask(groupBy, span);
    expect(status).toBe(200);
    return body.totals;
  };
  return { app: ownApp, clock, call, use, cron, ask, totals };
}

/** Adds the sums of all users together, as the cron does. */
const addTotalsOfDays = (environmentId: number) =>
  env.DB.prepare(
    `INSERT INTO usage_totals SELECT environment_id, day, event, model, sum(events), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, sum(events), NULL
     FROM usage_days WHERE environment_id = ? GROUP BY 1, 2, 3, 4`,
  )
    .bind(environmentId)
    .run();

const marks = async (environmentId: number) =>
  (
    await env.DB.prepare("SELECT count(*) AS n FROM usage_to_sum WHERE environment_id = ?")
      .bind(environmentId)
      .first<{ n: number }>()
  )?.n;

it("the usage of an environment is summed by day, event, model and user, of one mode, from inclusive, to exclusive", async () => {
  const { app, use, cron, totals } = await makeWorld();
  await use("ann", { quantities: { tokens: 0.1, cents: 0.000001 }, model: "large" });
  await use("ann", { quantities: { tokens: 0.2 }, occurredAt: "2026-01-14T23:59:59.999Z" });
  await use("bob", { event: "image", quantities: { seconds: 2.5 }, occurredAt: "2026-01-14T00:00:00Z" });
  await use("bob", { event: "image", model: "large", occurredAt: "2026-01-16T00:00:00Z" });
  await use("ann", { quantities: { tokens: 99 } }, "test");
  expect(await totals("day")).toEqual([]);
  await cron();
  expect(await marks(app.environments.live.id)).toBe(0);
  const [d14, d15, d16] = [14, 15, 16].map((day) => `2026-01-${day}T00:00:00.000Z`);
  expect(await totals("day")).toMatchObject([
    { time: d14, events: 2, quantities: { count: 2, tokens: 0.2, seconds: 2.5 } },
    { time: d15, events: 1, quantities: { count: 1, tokens: 0.1, cents: 0.000001 } },
    { time: d16, events: 1, quantities: { count: 1 } },
  ]);
  expect(await totals("event")).toMatchObject([
    { event: "chat", events: 2, quantities: { count: 2, tokens: 0.3, cents: 0.000001 } },
    { event: "image", events: 2, quantities: { count: 2, seconds: 2.5 } },
  ]);
  expect(await totals("model")).toMatchObject([
    { model: null, events: 2, quantities: { count: 2, tokens: 0.2, seconds: 2.5 } },
    { model: "large", events: 2, quantities: { count: 2, tokens: 0.1, cents: 0.000001 } },
  ]);
  expect(await totals("user")).toMatchObject([
    { userId: "ann", events: 2, quantities: { count: 2, tokens: 0.3, cents: 0.000001 } },
    { userId: "bob", events: 2, quantities: { count: 2, seconds: 2.5 } },
  ]);
  expect(await totals("day", { from: d15, to: d16 })).toMatchObject([
    { time: d15, events: 1, quantities: { count: 1, tokens: 0.1, cents: 0.000001 } },
  ]);
  expect(await totals("user", { from: d15, to: d15 })).toEqual([]);
  expect(await totals("user", { mode: "test" })).toMatchObject([
    { userId: "ann", events: 1, quantities: { count: 1, tokens: 99 } },
  ]);
  await use("ann", { occurredAt: "2026-01-14T12:00:00Z" });
  expect(await marks(app.environments.live.id)).toBe(1);
  await cron();
  expect(await totals("day", { from: d14, to: d15 })).toMatchObject([
    { time: d14, events: 3, quantities: { count: 3, tokens: 0.2, seconds: 2.5 } },
  ]);
});

it("the usage of an environment shows up to when it is complete: the application's creation, the oldest mark, or a minute ago", async () => {
  const { app, clock, use, cron, ask } = await makeWorld();
  const upTo = async () => (await ask("day")).body.upTo;
  await env.DB.prepare("UPDATE apps SET created_at_ms = ? WHERE id = ?")
    .bind(clock.ms - 1, app.appId)
    .run();
  const createdAt = iso(clock.ms - 1);
  expect(await upTo()).toBe(createdAt);
  await use("ann");
  clock.advance(10 * 60_000);
  expect(await upTo()).toBe(createdAt);
  await cron();
  expect(await upTo()).toBe(iso(clock.ms - 60_000));
  const first = clock.ms;
  await use("bob");
  clock.advance(1);
  await use("ann");
  clock.advance(10 * 60_000);
  expect(await upTo()).toBe(iso(first));
  await cron();
  expect(await upTo()).toBe(iso(clock.ms - 60_000));
});

it("the usage of an environment shows all digits of sums that exceed a double", async () => {
  const { app, clock, call, use, cron } = await makeWorld();
  const most = 8_796_093_022_208;
  await use("ann", { quantities: { tokens: most } });
  await use("ann", { quantities: { tokens: 0.001 } });
  const prices = { mode: "live", rules: [{ unit: "count", perEvent: 0 }] };
  const set = await call("PUT", `/api/v1/admin/apps/${app.appId}/prices`, { key: env.ADMIN_TOKEN, body: prices });
  expect(set.status).toBe(200);
  for (const input of [2 ** 53, 0.001, 2 ** 53]) await use("ann", { event: "metered", meters: { input } });
  const accountId = "(SELECT id FROM accounts WHERE environment_id = ?)";
  await env.DB.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 6 UNION ALL SELECT i + 1 FROM n WHERE i < 1054)
       INSERT INTO usage_events (account_id, seq, environment_id, event_id, event, count_minor, tokens_minor,
         occurred_at_ms, received_after_ms, request_hash, debits)
       SELECT account_id, i, environment_id, 'n' || i, event, count_minor, tokens_minor, occurred_at_ms,
         received_after_ms, '', '[]' FROM usage_events, n WHERE account_id = ${accountId} AND seq = 1`,
  )
    .bind(app.environments.live.id)
    .run();
  await cron();
  const exact = '"tokens":9235897673318400.001';
  const exactMeter = '"input":18014398509481984.001';
  const text = async (path: string, key: string) => {
    const headers = { authorization: `Bearer ${key}` };
    return (await startIsolate(clock).request(path, { headers })).text();
  };
  const ofApp = `/api/v1/admin/apps/${app.appId}/usage?mode=live&from=${FROM}&to=${TO}&groupBy`;
  for (const by of ["day", "event", "model", "user"]) {
    const sums = await text(`${ofApp}=${by}`, env.ADMIN_TOKEN);
    expect(sums).toContain(exact);
    expect(sums).toContain(exactMeter);
  }
  const ofUser = `/api/v1/usage?userId=ann&from=${FROM}`;
  const byDay = await text(`${ofUser}&groupBy=day`, app.keys.sk_live);
  expect(byDay).toContain(exact);
  expect(byDay).toContain(exactMeter);
  expect(await text(ofUser, app.keys.sk_live)).toContain('"amount":9235897673318400.001');
});

it("the usage of an environment sums meters and the operator's own costs, and counts the events without a cost", async () => {
  const { app, call, use, cron, totals } = await makeWorld();
  const rules = [{ unit: "cents", perEvent: 1 }];
  const costs = [{ model: "large", per: { input: { amount: 1, units: 1_000 }, output: 1e-6 } }];
  const path = `/api/v1/admin/apps/${app.appId}/prices`;
  await call("PUT", path, { key: env.ADMIN_TOKEN, body: { mode: "live", rules, costs } });
  await use("ann", { model: "large", meters: { input: 1_500.125, output: 1 } });
  await use("ann", { model: "large", meters: { input: 0.375, output: 2 }, occurredAt: "2026-01-14T00:00:00Z" });
  await use("bob", { model: "small", meters: { images: 2 } });
  await use("bob", { event: "image", quantities: { cents: 2 } });
  await cron();
  const ann = { events: 2, meters: { input: 1_500.5, output: 3 }, cost: 1.500503, withoutCost: 0 };
  const bob = { events: 2, meters: { images: 2 }, cost: null, withoutCost: 2 };
  expect(await totals("user")).toEqual([
    { userId: "ann", ...ann, quantities: { cents: 2 } },
    { userId: "bob", ...bob, quantities: { count: 1, cents: 3 } },
  ]);
  const all = { ...ann.meters, ...bob.meters };
  expect(await totals("event")).toMatchObject([
    { event: "chat", events: 3, meters: all, cost: 1.500503, withoutCost: 1 },
    { event: "image", events: 1, meters: {}, cost: null, withoutCost: 1 },
  ]);
  expect(await totals("model")).toMatchObject([
    { model: null, meters: {}, cost: null, withoutCost: 1 },
    { model: "large", meters: ann.meters, cost: 1.500503, withoutCost: 0 },
    { model: "small", meters: { images: 2 }, cost: null, withoutCost: 1 },
  ]);
  // 0.0003753 is rounded up to a step of a cent; the sum adds up what was stored.
  expect(await totals("day")).toMatchObject([
    { meters: { input: 0.375, output: 2 }, cost: 0.000377, withoutCost: 0 },
    { meters: { images: 2, input: 1_500.125, output: 1 }, cost: 1.500126, withoutCost: 2 },
  ]);
});

it("the usage of an environment keeps the first 200 names of meters of a day's event and model, and counts every event", async () => {
  const { app, call, use, cron, totals } = await makeWorld();
  const path = `/api/v1/admin/apps/${app.appId}/prices`;
  await call("PUT", path, { key: env.ADMIN_TOKEN, body: { mode: "live", rules: [{ unit: "cents", perEvent: 1 }] } });
  const names = Array.from({ length: 240 }, (_, n) => `m${String(n).padStart(3, "0")}`);
  for (let at = 220; at >= 0; at -= 20) {
    await use("ann", { meters: Object.fromEntries(names.slice(at, at + 20).map((name) => [name, 1])) });
    await cron();
  }
  const [total] = await totals("event");
  expect(total.events).toBe(12);
  expect(total.meters).toEqual(Object.fromEntries(names.slice(40).map((name) => [name, 1])));
});

it("the usage of an environment keeps an erased user's sums under the pseudonym", async () => {
  const { app, call, use, cron, totals } = await makeWorld();
  await use("ann", { quantities: { tokens: 3 } });
  await cron();
  await use("ann", { quantities: { tokens: 4 } });
  const body = { distinctId: "ann" };
  expect((await call("POST", "/api/v1/erase-person", { key: app.keys.sk_live, body })).status).toBe(200);
  await cron();
  const [total, ...others] = await totals("user");
  expect(others).toEqual([]);
  expect(total).toMatchObject({ userId: expect.any(String), events: 2, quantities: { count: 2, tokens: 7 } });
  expect(total.userId).not.toBe("ann");
  expect(await totals("event")).toMatchObject([{ event: "chat", events: 2, quantities: { count: 2, tokens: 7 } }]);
});

it("the usage of an environment uses a test clock's days and time", async () => {
  const { app, clock, call, use, cron, totals, ask } = await makeWorld();
  const nowMs = clock.ms + 40 * DAY_MS;
  const path = `/api/v1/admin/apps/${app.appId}/clock`;
  expect((await call("PUT", path, { key: env.ADMIN_TOKEN, body: { now: iso(nowMs) } })).status).toBe(200);
  await use("ann", {}, "test");
  await cron();
  const span = { mode: "test", from: "2026-02-24T00:00:00Z", to: "2026-02-25T00:00:00Z" };
  expect(await totals("day", span)).toMatchObject([
    { time: "2026-02-24T00:00:00.000Z", events: 1, quantities: { count: 1 } },
  ]);
  expect((await ask("day", span)).body.upTo).toBe(iso(nowMs - 60_000));
});

it("the largest users are the 100 by events and the 100 by each unit in one list, sorted by events, then by id", async () => {
  const { app, cron, totals } = await makeWorld();
  const { id } = app.environments.live;
  await env.DB.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 350)
       INSERT INTO accounts (environment_id, user_id) SELECT CAST(? AS INTEGER), printf('u%03d', i) FROM n`,
  )
    .bind(id)
    .run();
  // The first 150 users have two events each. The last 120 used tokens, later users more, and three users used cents.
  await env.DB.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2)
       INSERT INTO usage_events (account_id, seq, environment_id, event_id, event, count_minor, tokens_minor,
         cents_minor, occurred_at_ms, received_after_ms, request_hash, debits)
       SELECT id, i, environment_id, user_id || i, 'chat', 0, iif(user_id > 'u230', id * 67108864, NULL),
         iif(user_id IN ('u151', 'u152', 'u350'), 5, 0), 1767225600000, 1, '', '[]'
       FROM accounts, n WHERE environment_id = ? AND (i = 1 OR user_id <= 'u150')`,
  )
    .bind(id)
    .run();
  while ((await marks(id)) !== 0) await cron();
  const users: { userId: string; events: number }[] = await totals("user");
  const numbered = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, n) => `u${String(from + n).padStart(3, "0")}`);
  expect(users.map(({ userId }) => userId)).toEqual([...numbered(1, 100), "u151", "u152", ...numbered(251, 350)]);
  expect(users.map(({ events }) => events)).toEqual([...Array(100).fill(2), ...Array(102).fill(1)]);
});

describe("the usage of an environment is rejected", () => {
  it("without a field, with a time that is not the start of a day in UTC, and with the wrong order", async () => {
    const { app, call, ask } = await makeWorld();
    const path = `/api/v1/admin/apps/${app.appId}/usage`;
    const whole: Record<string, string> = { mode: "live", from: FROM, to: TO, groupBy: "day" };
    for (const name of Object.keys(whole)) {
      const { [name]: _, ...rest } = whole;
      const query = new URLSearchParams(rest);
      expectError(await call("GET", `${path}?${query}`, { key: env.ADMIN_TOKEN }), "invalid_request", name);
    }
    for (const time of [
      "2026-01-01T00:00:00.001Z",
      "2026-01-01T12:00:00Z",
      "2026-01-01T00:00:00%2B01:00",
      "2026-01-01",
    ]) {
      expectError(await ask("day", { from: time }), "invalid_request", "from");
      expectError(await ask("day", { to: time }), "invalid_request", "to");
    }
    expectError(await ask("day", { from: TO, to: FROM }), "invalid_request", "to");
    for (const groupBy of ["hour", "month", "day,user", ""])
      expectError(await ask(groupBy), "invalid_request", "groupBy");
    expectError(await ask("day", { mode: "both" }), "invalid_request", "mode");
    expect((await ask("day", { from: "2026-01-01T01:00:00%2B01:00" })).status).toBe(200);
  });

  it("for an unknown application, and for callers other than the administrator", async () => {
    const { app, call } = await makeWorld();
    const query = `usage?mode=live&from=${FROM}&to=${TO}&groupBy=day`;
    expectError(
      await call("GET", `/api/v1/admin/apps/app_none0/${query}`, { key: env.ADMIN_TOKEN }),
      "not_found",
      "appId",
    );
    for (const key of Object.values(app.keys)) {
      expectError(await call("GET", `/api/v1/admin/apps/${app.appId}/${query}`, { key }), "invalid_key");
    }
  });

  /** Only the soak uses the route's own limit: D1 needs seconds to store so many rows. */
  const SUMS_MAX = isSoak ? 2_000_000 : 20_000;
  it(`for a span of more than ${SUMS_MAX} sums, with any groups`, { timeout: isSoak ? 900_000 : 120_000 }, async () => {
    const { app, clock, use } = await makeWorld();
    const { live } = app.environments;
    await use("ann");
    // The last day has one sum.
    await env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${SUMS_MAX})
       INSERT INTO usage_days
       SELECT environment_id, 20454 + i / ${SUMS_MAX / 4}, id, 'e' || (i % ${SUMS_MAX / 4}), '', 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, NULL
       FROM n, accounts WHERE environment_id = ?`,
    )
      .bind(live.id)
      .run();
    await addTotalsOfDays(live.id);
    const root = makeAdminCtx(clock);
    const read = (groupBy: "day" | "user", days: number) =>
      readEnvironmentUsage(
        root,
        app.appId,
        { mode: "live", from: Date.parse(FROM), to: Date.parse(FROM) + days * DAY_MS, groupBy },
        SUMS_MAX,
      );
    for (const groupBy of ["day", "user"] as const) {
      await expect(read(groupBy, 31)).rejects.toMatchObject({ code: "invalid_request", param: "from" });
    }
    const most = await read("day", 4);
    expect(most.totals.map(({ events }) => events)).toEqual(Array(4).fill(SUMS_MAX / 4));
    expect((await read("user", 4)).totals).toMatchObject([{ userId: "ann", events: SUMS_MAX, quantities: {} }]);
    for (const table of ["usage_days", "usage_totals"])
      await env.DB.prepare(`DELETE FROM ${table} WHERE environment_id = ?`).bind(live.id).run();
  });

  it("for more than 10,000 groups", async () => {
    const { app, ask, cron } = await makeWorld();
    const { id } = app.environments.live;
    await env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)
       INSERT INTO usage_days SELECT CAST(? AS INTEGER), 20454 + (i % 2), -1, 'event ' || i, '', 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, NULL FROM n`,
    )
      .bind(id)
      .run();
    await addTotalsOfDays(id);
    await cron();
    expectError(await ask("event"), "invalid_request", "from");
    expect((await ask("day")).body.totals).toHaveLength(2);
    expect((await ask("event", { to: "2026-01-02T00:00:00Z" })).body.totals).toHaveLength(5_000);
  });
});
