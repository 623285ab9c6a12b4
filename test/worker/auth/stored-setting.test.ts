import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { countingD1 } from "../../support/counting-d1.ts";
import { END_USER_SETTING, jwksSetting } from "../../support/end-user-setting.ts";
import { userToken } from "../../support/keyed-routes.ts";
import { APPS, LIST } from "../../support/paths.ts";
import { expectError } from "../../support/rejections.ts";
import { type Bindings, Clock, makeApp, makeClient, type TestApp } from "../../support/world.ts";

async function world(bindings: Bindings = {}) {
  const clock = new Clock();
  const app = await makeApp();
  const client = (others: Bindings = {}) => makeClient(clock, { ...bindings, ...others });
  const call = client();
  const set = (setting: object | null, by = call) =>
    by("PUT", `${APPS}/${app.appId}/end-user-auth`, { key: env.ADMIN_TOKEN, body: { mode: "live", setting } });
  const list = async (by = call, headers: Record<string, string> = {}) =>
    by("GET", LIST, { key: app.keys.pk_live, headers: { "x-user-token": await userToken("u", clock), ...headers } });
  return { app, clock, call, client, set, list };
}

const storedOf = (app: TestApp) =>
  env.DB.prepare("SELECT end_user_auth FROM environments WHERE id = ?")
    .bind(app.environments.live.id)
    .first<string | null>("end_user_auth");

it("the secret of an hs256 setting is stored sealed, never shown, and verifies a token without another trip", async () => {
  const { app, set, list, client } = await world();
  const { body, status } = await set(END_USER_SETTING);
  expect([status, JSON.stringify(body)]).toEqual([200, expect.not.stringContaining(END_USER_SETTING.secret)]);
  const stored = (await storedOf(app)) ?? "";
  expect(stored).not.toContain(END_USER_SETTING.secret);
  expect(Object.keys(JSON.parse(stored)).sort()).toEqual(["sealed", "type", "version"]);
  expect((await list()).status).toBe(200);
  const { d1, spent } = countingD1(env.DB);
  expect((await list(client({ DB: d1 }))).status).toBe(200);
  expect(spent().roundTrips).toBe(1);
});

it("the secret of an hs256 setting cannot be set without a SETTINGS_SECRET of 32 characters or more, and then nothing is written", async () => {
  const { app, set, client } = await world();
  for (const SETTINGS_SECRET of [undefined as unknown as string, "", "x".repeat(31)]) {
    const call = client({ SETTINGS_SECRET });
    expectError(await set(END_USER_SETTING, call), "secrets_unavailable");
    expect(await storedOf(app)).toBeNull();
    // Settings that hold no secret can be set.
    expect((await set(jwksSetting("https://keys.example.com/jwks"), call)).status).toBe(200);
    expect((await set(null, call)).status).toBe(200);
  }
});

it("the secret of an hs256 setting admits no user if it cannot be opened: without SETTINGS_SECRET, with another one, or in another environment", async () => {
  const { app, set, list, client, call, clock } = await world();
  await set(END_USER_SETTING);
  for (const SETTINGS_SECRET of ["", "another-secret-of-32-characters-0"]) {
    const other = client({ SETTINGS_SECRET });
    expectError(await list(other), "secrets_unavailable");
    // Calls with a secret key do not need the setting.
    expect((await other("GET", LIST, { key: app.keys.sk_live })).status).toBe(200);
  }
  await env.DB.prepare("UPDATE environments SET end_user_auth = ? WHERE id = ?")
    .bind(await storedOf(app), app.environments.test.id)
    .run();
  const headers = { "x-user-token": await userToken("u", clock) };
  expectError(await call("GET", LIST, { key: app.keys.pk_test, headers }), "secrets_unavailable");
  expect((await set(END_USER_SETTING, client({ SETTINGS_SECRET: "another-secret-of-32-characters-0" }))).status).toBe(
    200,
  );
  expectError(await list(), "secrets_unavailable");
});

it("the secret of an hs256 setting opens with the previous secret, and is sealed with the current one when it is set again", async () => {
  const { app, set, list, client } = await world();
  await set(END_USER_SETTING);
  const before = env.SETTINGS_SECRET;
  const rotated = client({ SETTINGS_SECRET: "the-next-secret-of-32-characters-", SETTINGS_SECRET_PREVIOUS: before });
  const afterRotation = client({ SETTINGS_SECRET: "the-next-secret-of-32-characters-" });
  expect((await list(rotated)).status).toBe(200);
  expectError(await list(afterRotation), "secrets_unavailable");
  const old = await storedOf(app);
  expect((await set(END_USER_SETTING, rotated)).status).toBe(200);
  expect(await storedOf(app)).not.toBe(old);
  expect((await list(afterRotation)).status).toBe(200);
});

const PAGE = "https://app.example.com";
const origins = [PAGE, "https://app.example.com:8443"];

it("origins in the setting are at most 20, each of the form https://host[:port] as browsers send it", async () => {
  const { set } = await world();
  for (const origin of [
    "http://app.example.com",
    "https://app.example.com/",
    "https://APP.example.com",
    "https://app.example.com:443",
    "app.example.com",
    "*",
    "https://*.example.com",
    "https://*",
    "null",
    "",
    7,
  ]) {
    const answer = await set({ ...END_USER_SETTING, origins: [PAGE, origin] });
    expectError(answer, "invalid_request", "setting.origins[1]");
  }
  expectError(await set({ ...END_USER_SETTING, origins: Array(21).fill(PAGE) }), "invalid_request", "setting.origins");
  expect((await set({ ...END_USER_SETTING, origins: Array(20).fill(PAGE) })).status).toBe(200);
  const shown = (await set({ ...END_USER_SETTING, origins })).body.setting;
  expect(shown).toEqual({ type: "hs256", origins });
  expect((await set({ ...END_USER_SETTING, origins: [] })).body.setting).toEqual({ type: "hs256" });
});

it("origins in the setting allow calls with a publishable key from their pages, and reject calls from other pages, of which nothing is stored", async () => {
  const { app, call, set, list } = await world();
  await set({ ...END_USER_SETTING, origins });
  const { pk_live, sk_live } = app.keys;
  const event = { event: "seen", distinct_id: "u" };
  const calls = (headers: Record<string, string>, key = pk_live) => [
    list(call, headers),
    call("POST", "/batch/", { body: { api_key: key, batch: [event] }, headers }),
    call("POST", "/i/v1/analytics/events", {
      key,
      body: { batch: [{ ...event, uuid: crypto.randomUUID() }] },
      headers,
    }),
    call("POST", "/flags/", { body: { api_key: key, distinct_id: "u" }, headers }),
    call("GET", `/array/${key}/config`, { headers }),
    call("GET", `/array/${key}/config.js`, { headers }),
  ];
  for (const origin of ["https://evil.example", "null", `${PAGE}.evil.example`, "http://app.example.com"]) {
    for (const answer of await Promise.all(calls({ origin }))) {
      expectError(answer, "forbidden");
      expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    }
  }
  const count = () =>
    env.DB.prepare("SELECT count(*) AS n FROM analytics_events WHERE environment_id = ?")
      .bind(app.environments.live.id)
      .first("n");
  expect(await count()).toBe(0);
  for (const headers of [{ origin: PAGE }, { origin: "https://app.example.com:8443" }, {}]) {
    for (const answer of await Promise.all(calls(headers))) expect(answer.status).toBe(200);
  }
  expect(await count()).toBe(6);
  // Calls with a secret key may have any origin.
  const headers = { origin: "https://evil.example" };
  expect((await call("GET", LIST, { key: sk_live, headers })).status).toBe(200);
});

it("origins in the setting allow every page if there are none, which is the default", async () => {
  const { app, call, set, list } = await world();
  const headers = { origin: "https://any.example" };
  const capture = () =>
    call("POST", "/batch/", { body: { api_key: app.keys.pk_live, event: "seen", distinct_id: "u" }, headers });
  expect((await capture()).status).toBe(200);
  await set(END_USER_SETTING);
  expect((await capture()).status).toBe(200);
  expect((await list(call, headers)).status).toBe(200);
});

it("origins in the setting add no trip: a capture from a listed page takes one", async () => {
  const { app, client, set } = await world();
  await set({ ...END_USER_SETTING, origins });
  const { d1, spent } = countingD1(env.DB);
  const options = { body: { api_key: app.keys.pk_live, event: "seen", distinct_id: "u" }, headers: { origin: PAGE } };
  expect((await client({ DB: d1 })("POST", "/batch/", options)).status).toBe(200);
  expect(spent().roundTrips).toBe(1);
});

it("origins in the setting are checked after the key, so that an unknown key learns nothing about them", async () => {
  const { app, call, set } = await world();
  await set({ ...END_USER_SETTING, origins });
  await env.DB.prepare("UPDATE api_keys SET revoked_at_ms = 1 WHERE environment_id = ? AND kind = 'publishable'")
    .bind(app.environments.live.id)
    .run();
  const headers = { origin: "https://evil.example" };
  const event = { event: "seen", distinct_id: "u" };
  const body = { api_key: app.keys.pk_live, ...event };
  expectError(await call("POST", "/batch/", { body, headers }), "invalid_key");
  expectError(await call("GET", LIST, { key: app.keys.pk_live, headers }), "invalid_key");
});
