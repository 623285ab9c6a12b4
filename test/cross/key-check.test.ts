import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeKeyId } from "../../src/auth/key-session.ts";
import { writeKey } from "../../src/db/key-form.ts";
import { sha256 } from "../../src/lib/encoding.ts";
import { randomId } from "../../src/lib/ids.ts";
import { countingD1 } from "../support/counting-d1.ts";
import { END_USER_SETTING, storedSettingOf } from "../support/end-user-setting.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { callKeyed, type KeyedRoute, keyedRoutes, prepareKeyed, userToken } from "../support/keyed-routes.ts";
import { copyApp, laggingD1 } from "../support/lagging-d1.ts";
import { LIST } from "../support/paths.ts";
import { expectError } from "../support/rejections.ts";
import { Clock, home, makeApp, makeClient, makePack, newEnvironmentIds, type TestApp } from "../support/world.ts";
import { wrappedD1 } from "../support/wrapped-d1.ts";

// Rule W3a: a key is checked in the first trip of every call, and nothing about it is remembered.

afterAll(expectLedgerInvariants);
beforeAll(() => applyD1Migrations(env.REPLICA, env.TEST_MIGRATIONS));

/** An application whose user "u" has credits, in an isolate that has just written for that user. */
async function warmWorld() {
  const app = await makeApp(END_USER_SETTING);
  await makePack(app.appId, "Pack", [{ amountMinor: 1_000_000, unit: "tokens" }]);
  const clock = new Clock();
  const counting = countingD1(env.DB);
  const call = makeClient(clock, { DB: counting.d1 });
  const key = app.keys.sk_live;
  const warm = await call("POST", "/api/v1/credits/grant", { key, body: { userId: "u", packId: "Pack" } });
  expect(warm.status).toBe(200);
  return { app, clock, call, counting };
}

const revoke = async (key: string, d1: Pick<D1Database, "prepare"> = env.DB) =>
  d1
    .prepare("UPDATE api_keys SET revoked_at_ms = 1 WHERE hash = ?")
    .bind(await sha256(key))
    .run();

const OF_ACCOUNT = "account_id IN (SELECT id FROM accounts WHERE environment_id = ?1)";
const TABLES = {
  accounts: "environment_id = ?1",
  credit_balances: OF_ACCOUNT,
  credit_ledger: OF_ACCOUNT,
  usage_events: OF_ACCOUNT,
  large_properties: OF_ACCOUNT,
  reservations: OF_ACCOUNT,
  recurring_grants: OF_ACCOUNT,
  distinct_ids: "environment_id = ?1",
  analytics_events: "environment_id = ?1",
  consent_log: "environment_id = ?1",
  export_audit: "environment_id = ?1",
};

/** Every row of an environment. */
async function heldOf(app: TestApp): Promise<string> {
  const results = await env.DB.batch(
    Object.entries(TABLES).map(([table, where]) =>
      env.DB.prepare(`SELECT * FROM ${table} WHERE ${where}`).bind(app.environments.live.id),
    ),
  );
  return JSON.stringify(results.map((result) => result.results));
}

/** Checks that a call got only `invalid_key`, and changed nothing. */
async function expectNothing(
  world: Awaited<ReturnType<typeof warmWorld>>,
  route: KeyedRoute,
  key: string,
  tag: string,
) {
  const { app, call, clock, counting } = world;
  const before = await heldOf(app);
  counting.spent();
  const answer = await callKeyed(call, clock, route, key, tag);
  expectError(answer, "invalid_key");
  expect(Object.keys(answer.body)).toEqual(["error"]);
  expect(answer.headers.get("x-d1-bookmark")).toBeNull();
  expect(answer.headers.get("idempotent-replayed")).toBeNull();
  const { roundTrips, rowsWritten } = counting.spent();
  expect(rowsWritten).toBe(0);
  // The primary is asked once if a replica does not know the key.
  expect(roundTrips).toBeLessThanOrEqual(route.writes ? 1 : 2);
  expect(await heldOf(app)).toBe(before);
}

describe.each(keyedRoutes)("$name", (route) => {
  it("rejects a key that was just revoked, even in an isolate that has just served it, and writes nothing", async () => {
    const world = await warmWorld();
    const { app, clock, call } = world;
    const key = app.keys[route.kind];
    await prepareKeyed(call, route, app, "before");
    const served = await callKeyed(call, clock, route, key, "before");
    expect(served.status, JSON.stringify(served.body)).toBe(200);
    await prepareKeyed(call, route, app, "after");
    await revoke(key);
    await expectNothing(world, route, key, "after");
  });

  it("rejects a well-formed key that was never issued, and writes nothing", async () => {
    const world = await warmWorld();
    const { app, call } = world;
    await prepareKeyed(call, route, app, "unknown");
    const kind = route.kind === "sk_live" ? "secret" : "publishable";
    await expectNothing(world, route, writeKey(kind, app.environments.live, randomId("")), "unknown");
  });

  it("sends no query for a mistyped key or one of an unbound database", async () => {
    const { app, call, clock, counting } = await warmWorld();
    const key = app.keys[route.kind];
    const kind = route.kind === "sk_live" ? "secret" : "publishable";
    const { id, appId, mode } = app.environments.live;
    const elsewhere = writeKey(kind, { id, appId: `${appId.slice(0, -1)}9`, mode }, randomId(""));
    counting.spent();
    for (const wrong of [`${key.slice(0, 20)}${key.charAt(20) === "x" ? "y" : "x"}${key.slice(21)}`, elsewhere]) {
      expectError(await callKeyed(call, clock, route, wrong, "wrong"), "invalid_key");
    }
    expect(counting.spent()).toEqual({ roundTrips: 0, rowsRead: 0, rowsWritten: 0 });
  });

  it("rejects a key whose hash is stored in another environment, and writes nothing", async () => {
    const world = await warmWorld();
    const { app, call } = world;
    await prepareKeyed(call, route, app, "moved");
    const kind = route.kind === "sk_live" ? "secret" : "publishable";
    const key = writeKey(kind, app.environments.live, randomId(""));
    const hash = await sha256(key);
    await env.DB.prepare(
      "INSERT INTO api_keys (hash, id, environment_id, kind, hint, created_at_ms) VALUES (?, ?, CAST(? AS INTEGER), ?, '', 0)",
    )
      .bind(hash, makeKeyId(hash), app.environments.test.id, kind)
      .run();
    await expectNothing(world, route, key, "moved");
  });
});

it("describes a malformed body only to the holder of a valid key, also for an element of a list", async () => {
  const { app, call } = await warmWorld();
  const unknown = writeKey("secret", app.environments.live, randomId(""));
  for (const body of [[{}, { eventId: 1 }], [], {}, "{", "null"]) {
    expectError(await call("POST", "/api/v1/usage/events", { key: unknown, body }), "invalid_key");
  }
  const { status, body } = await call("POST", "/api/v1/usage/events", { key: app.keys.sk_live, body: [{}] });
  expect([status, body.results[0].error.code]).toEqual([200, "invalid_request"]);
});

it("reports a database fault to any caller, because it reveals nothing about a key", async () => {
  const { app } = await warmWorld();
  const overloaded = wrappedD1(env.DB, () => Promise.reject(new Error("D1_ERROR: D1 DB is overloaded.")));
  const call = makeClient(new Clock(), { DB: overloaded });
  for (const key of [app.keys.sk_live, writeKey("secret", app.environments.live, randomId(""))]) {
    expectError(await call("GET", LIST, { key }), "temporarily_unavailable");
  }
});

it("the check of a key takes no trip of its own and reads at most two rows, for a list and for a debit from memory", async () => {
  const { app, call, clock, counting } = await warmWorld();
  const sent: string[][] = [];
  const seen = makeClient(clock, {
    DB: wrappedD1(env.DB, (send, statements) => {
      sent.push(statements.map(({ text }) => text));
      return send(statements);
    }),
  });
  const rowsOf = async (text: string, ...values: unknown[]) => {
    const { meta } = await env.DB.prepare(text)
      .bind(...values)
      .run();
    return meta.rows_read;
  };
  counting.spent();
  await call("GET", LIST, { key: app.keys.sk_live });
  expect(counting.spent()).toMatchObject({ roundTrips: 1, rowsWritten: 0 });
  // An empty list reads only the key's rows, in a statement that both share.
  await call("GET", "/api/v1/credits?userId=nobody", { key: app.keys.sk_live });
  expect(counting.spent()).toEqual({ roundTrips: 1, rowsRead: 2, rowsWritten: 0 });
  await seen("POST", "/api/v1/usage/events", {
    key: app.keys.sk_live,
    body: { userId: "u", event: "e", eventId: "e1", quantities: { tokens: 1 } },
  });
  const values = [await sha256(app.keys.sk_live), app.environments.live.id, "secret"];
  const checks = sent.flat().filter((text) => text.includes("api_keys"));
  expect(checks).toHaveLength(1);
  for (const text of checks) expect(await rowsOf(text, ...values)).toBeLessThanOrEqual(2);
});

async function laggingWorld(setting: object | null = END_USER_SETTING) {
  const app = await makeApp(setting);
  const lagging = laggingD1(env.DB, env.REPLICA);
  const clock = new Clock();
  return { app, lagging, clock, call: makeClient(clock, { DB: lagging.d1 }) };
}

it("a replica that lags and does not know a key makes Purser ask the primary, whose answer counts", async () => {
  const { app, call, clock } = await laggingWorld();
  const { pk_live, sk_live } = app.keys;
  expect((await call("GET", LIST, { key: sk_live })).body).toEqual({ credits: [] });
  const headers = { "x-user-token": await userToken("u", clock) };
  expect((await call("GET", LIST, { key: pk_live, headers })).body).toEqual({ credits: [] });
  expectError(await call("GET", LIST, { key: writeKey("secret", app.environments.live, randomId("")) }), "invalid_key");
});

it("a replica that lags and lacks the end-user setting makes Purser ask the primary before it rejects anything", async () => {
  const { app, call, clock, lagging } = await laggingWorld(null);
  await copyApp(app);
  const headers = { "x-user-token": await userToken("u", clock) };
  const list = () => call("GET", LIST, { key: app.keys.pk_live, headers });
  expectError(await list(), "forbidden");
  await lagging.d1
    .prepare("UPDATE environments SET end_user_auth = ? WHERE id = ?")
    .bind(await storedSettingOf(app.environments.live, END_USER_SETTING), app.environments.live.id)
    .run();
  expect((await list()).status).toBe(200);
});

it("a replica that lags and has an older end-user setting rejects no token: the primary decides", async () => {
  const { app, call, clock, lagging } = await laggingWorld();
  await copyApp(app);
  const secret = "another-secret-of-32-bytes-or-more!";
  await lagging.d1
    .prepare("UPDATE environments SET end_user_auth = ? WHERE id = ?")
    .bind(await storedSettingOf(app.environments.live, { ...END_USER_SETTING, secret }), app.environments.live.id)
    .run();
  const list = async (token: string) =>
    call("GET", LIST, { key: app.keys.pk_live, headers: { "x-user-token": token } });
  expect((await list(await userToken("u", clock, secret))).status).toBe(200);
  expectError(await list(await userToken("u", clock, "no-secret-of-anybody-32-bytes-long!")), "invalid_user_token");
  expectError(await list(await userToken("v", clock, secret)), "forbidden", "userId");
});

it("a replica that lags lets a revoked key read until the replica is updated, but never write, because writes ask the primary", async () => {
  const { app, call, lagging } = await laggingWorld();
  await copyApp(app);
  const key = app.keys.sk_live;
  await revoke(key, lagging.d1);
  expect((await call("GET", LIST, { key })).status).toBe(200);
  const body = { distinctId: "u", purpose: "p", decision: "granted" };
  expectError(await call("POST", "/api/v1/consent", { key, body }), "invalid_key");
  await lagging.catchUpTo(lagging.written());
  expectError(await call("GET", LIST, { key }), "invalid_key");
});

it("a replica that lags behind the caller's bookmark does not decide about the key: the primary does", async () => {
  const { app, call, lagging } = await laggingWorld();
  await copyApp(app);
  const key = app.keys.sk_live;
  const body = { distinctId: "u", purpose: "p", decision: "granted" };
  const bookmark = (await call("POST", "/api/v1/consent", { key, body })).headers.get("x-d1-bookmark") ?? "";
  await revoke(app.keys.pk_live, lagging.d1);
  expect((await call("GET", LIST, { key, headers: { "x-d1-bookmark": bookmark } })).status).toBe(200);
  await revoke(key, lagging.d1);
  const later = `${bookmark.slice(0, 18)}${lagging.written().toString(16).padStart(8, "0")}${bookmark.slice(26)}`;
  expectError(await call("GET", LIST, { key, headers: { "x-d1-bookmark": later } }), "invalid_key");
});

it("an end-user's token is verified by a changed setting immediately, even in an isolate that has just used the previous one", async () => {
  const { app, call, clock } = await warmWorld();
  const list = async (secret?: string) =>
    call("GET", LIST, { key: app.keys.pk_live, headers: { "x-user-token": await userToken("u", clock, secret) } });
  const other = "another-secret-of-32-bytes-and-more";
  expect((await list()).status).toBe(200);
  const set = async (setting: object | null) =>
    env.DB.prepare("UPDATE environments SET end_user_auth = ? WHERE id = ?")
      .bind(await storedSettingOf(app.environments.live, setting), app.environments.live.id)
      .run();
  await set({ type: "hs256", secret: other });
  expectError(await list(), "invalid_user_token");
  expect((await list(other)).status).toBe(200);
  await set(null);
  expectError(await list(other), "forbidden");
});

it("an end-user's token is verified before a publishable key's consent is sent to the database", async () => {
  const { app, clock } = await warmWorld();
  const sent: string[] = [];
  const watched = wrappedD1(env.DB, (send, statements) => {
    sent.push(statements.map(({ text }) => text).join(";"));
    return send(statements);
  });
  const call = makeClient(clock, { DB: watched });
  const consent = (token: string) =>
    call("POST", "/api/v1/consent", {
      key: app.keys.pk_live,
      headers: { "x-user-token": token },
      body: { distinctId: "u", purpose: "p", decision: "granted" },
    });
  expectError(await consent(await userToken("u", clock, "not-the-secret-of-this-application")), "invalid_user_token");
  expectError(await consent(await userToken("somebody else", clock)), "forbidden");
  expectError(await consent(""), "invalid_user_token");
  expect(sent.filter((text) => text.includes("consent_log"))).toEqual([]);
  expect(sent).toHaveLength(3);
  expect((await consent(await userToken("u", clock))).status).toBe(200);
  expect(sent.slice(3).map((text) => text.includes("consent_log"))).toEqual([false, true]);
});

it("an end-user's token shows no data of another user, even though the data is read in the same trip as the key", async () => {
  const { app, call, clock } = await warmWorld();
  const headers = { "x-user-token": await userToken("somebody else", clock) };
  const answer = await call("GET", LIST, { key: app.keys.pk_live, headers });
  expectError(answer, "forbidden", "userId");
  expect(Object.keys(answer.body)).toEqual(["error"]);
});

const ADMIN = "/api/v1/admin/apps";

/** An application of a database, with a secret key and a pack. */
async function appIn(call: ReturnType<typeof makeClient>, database: "DB" | "DB_1") {
  const admin = (path: string, body: object) => call("POST", `${ADMIN}${path}`, { key: env.ADMIN_TOKEN, body });
  const { appId } = (await admin("", { name: "Two", database })).body;
  const { key } = (await admin(`/${appId}/keys`, { kind: "secret", mode: "live" })).body;
  await admin(`/${appId}/packs`, { packName: "Pack", items: [{ amount: 10, unit: "tokens" }] });
  const post = (path: string, body: object) => call("POST", `/api/v1${path}`, { key, body });
  const { body } = await post("/credits/grant", { userId: "u", packId: "Pack" });
  return { appId, key, post, balanceId: body.balances[0].balanceId as string };
}

it("two databases do not find an id with a key of the other database, only with its own key", async () => {
  const call = makeClient(new Clock());
  const apps = [await appIn(call, "DB"), await appIn(call, "DB_1")] as const;
  const [first, second] = apps;
  expect([first.balanceId.at(-1), second.balanceId.at(-1)]).toEqual(["0", "1"]);
  for (const [mine, other] of [
    [first, second],
    [second, first],
  ] as const) {
    const use = { event: "e", quantities: { count: 0, tokens: 1 } };
    const { reservationId } = (await mine.post("/usage/reservations", { userId: "u", ...use })).body;
    expectError(await other.post("/credits/revoke", { balanceId: mine.balanceId }), "credit_balance_not_found");
    expectError(await other.post(`/usage/reservations/${reservationId}/release`, {}), "reservation_not_found");
    const commit = { eventId: "e1", quantities: use.quantities };
    expectError(await other.post(`/usage/reservations/${reservationId}/commit`, commit), "reservation_not_found");
    const path = `/api/v1/credits/history?userId=u&balanceId=${mine.balanceId}`;
    expectError(await call("GET", path, { key: other.key }), "credit_balance_not_found");
    expect((await mine.post(`/usage/reservations/${reservationId}/release`, {})).status).toBe(200);
    expect((await mine.post("/credits/revoke", { balanceId: mine.balanceId })).status).toBe(200);
  }
});

it("two databases are kept apart in an isolate's memory if both have an environment with the same integer id", async () => {
  const call = makeClient(new Clock());
  const { live: id } = newEnvironmentIds();
  const databases = home() === 0 ? [env.DB, env.SPARE] : [env.SPARE, env.DB];
  const keys = await Promise.all(
    databases.map(async (d1, index) => {
      const appId = `${randomId("app_")}${index}`;
      const key = writeKey("secret", { id, appId, mode: "live" }, randomId(""));
      await d1.batch([
        d1.prepare("INSERT INTO apps (id, name, created_at_ms) VALUES (?, 'Twin', 0)").bind(appId),
        d1
          .prepare("INSERT INTO environments (id, app_id, mode) VALUES (CAST(? AS INTEGER), ?, 'live')")
          .bind(id, appId),
        d1
          .prepare(
            "INSERT INTO api_keys (hash, id, environment_id, kind, hint, created_at_ms) VALUES (?, ?, CAST(? AS INTEGER), 'secret', '', 0)",
          )
          .bind(await sha256(key), makeKeyId(await sha256(key)), id),
        d1
          .prepare(
            "INSERT INTO credit_packs (app_id, id, pack_number, name, name_key, unit, matches, created_at_ms) VALUES (?, ?, 1, 'P', 'p', 'tokens', '[]', 0)",
          )
          .bind(appId, randomId("cpk_")),
      ]);
      return key;
    }),
  );
  const post = (key: string, path: string, body: object) => call("POST", `/api/v1${path}`, { key, body });
  const [rich = "", poor = ""] = keys;
  const spend = (key: string, eventId: string) =>
    post(key, "/usage/events", { eventId, userId: "u", event: "e", quantities: { count: 0, tokens: 1 } });
  expect((await post(rich, "/credits/grant", { userId: "u", packId: "P", quantity: 5 })).status).toBe(200);
  expect((await spend(rich, "e1")).status).toBe(200);
  expectError(await spend(poor, "e1"), "insufficient_credits");
  expect((await spend(rich, "e2")).body.debits).toMatchObject([{ remaining: 3 }]);
  expect((await call("GET", LIST, { key: poor })).body.credits).toEqual([]);
});
