import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { eventsOf, type SentEvent } from "../../../support/people.ts";
import { expectError } from "../../../support/rejections.ts";
import { Clock, makeApp, makeClient, makeKey, type TestApp } from "../../../support/world.ts";

// P1: a relay key forwards data of others, so its data is judged like a publishable key's.

async function world() {
  const app = await makeApp();
  const clock = new Clock();
  return { app, clock, call: makeClient(clock), relay: await makeKey(app.environments.live, "relay") };
}

const PAGE_EVENT = { event: "seen", distinct_id: "ana" };
/** A UUID, which also has the form of a device's id. */
const uuid = (end: number) => `0194685f-8a3c-7d11-9f2b-${String(end).padStart(12, "0")}`;

/** Events with honest and false claims of devices and users, and with properties of both. */
const STORY: readonly SentEvent[] = [
  { event: "seen", distinct_id: uuid(1) },
  { event: "$identify", distinct_id: "ana", properties: { $anon_distinct_id: uuid(1), $set: { plan: "pro" } } },
  { event: "$identify", distinct_id: "mallory", properties: { $anon_distinct_id: uuid(1) } },
  { event: "$identify", distinct_id: "mallory", properties: { $anon_distinct_id: "ana" } },
  { event: "$create_alias", distinct_id: "mallory", properties: { alias: "crm-7" } },
  { event: "$identify", distinct_id: uuid(2), properties: { $anon_distinct_id: uuid(3) } },
  { event: "seen", distinct_id: "ana", properties: { $set_once: { first: 1 } } },
].map((event, index) => ({ ...event, uuid: uuid(index) }));

/** All stored rows about people and events, without the environment's id. */
async function storedIn({ environments }: TestApp): Promise<unknown[]> {
  const tables = ["distinct_ids", "analytics_events", "analytics_days"];
  const results = await env.DB.batch<Record<string, unknown>>(
    tables.map((table) => env.DB.prepare(`SELECT * FROM ${table} WHERE environment_id = ?`).bind(environments.live.id)),
  );
  return results.map((result) => result.results.map((row) => ({ ...row, environment_id: 0 })));
}

it("data sent with a relay key is stored and counted exactly like a publishable key's, and unlike a secret key's, in both protocols", async () => {
  for (const isV1 of [false, true]) {
    const stored: unknown[] = [];
    for (const kind of ["publishable", "relay", "secret"] as const) {
      const { app, call } = await world();
      const key = await makeKey(app.environments.live, kind);
      for (const event of STORY) {
        const batch = [{ properties: {}, ...event }];
        const answer = isV1
          ? await call("POST", "/i/v1/analytics/events", { key, body: { batch } })
          : await call("POST", "/batch/", { body: { api_key: key, batch } });
        expect(answer.status).toBe(200);
      }
      stored.push(await storedIn(app));
    }
    expect(stored[1]).toEqual(stored[0]);
    expect(stored[2]).not.toEqual(stored[0]);
  }
});

it("data sent with a relay key is dropped above a daily limit, like a publishable key's", async () => {
  const { app, call, relay } = await world();
  const set = { mode: "live", analytics: { eventsADay: 2 } };
  await call("PUT", `/api/v1/admin/apps/${app.appId}/limits`, { key: env.ADMIN_TOKEN, body: set });
  const batch = [1, 2, 3].map((end) => ({ ...PAGE_EVENT, uuid: uuid(end) }));
  const answer = await call("POST", "/batch/", { body: { api_key: relay, batch } });
  expect(answer.body).toEqual({ status: 1, quota_limited: ["events"] });
  expect((await call("POST", "/batch/", { body: { api_key: app.keys.sk_live, batch } })).body).toEqual({ status: 1 });
});

it("a relay key in the header takes precedence over the page's key in the body", async () => {
  const { app, call, relay } = await world();
  for (const [index, path] of ["/batch/", "/e/", "/capture"].entries()) {
    const event = { ...PAGE_EVENT, uuid: uuid(index), properties: { token: app.keys.pk_live } };
    const answer = await call("POST", path, { key: relay, body: { api_key: app.keys.pk_live, batch: [event] } });
    expect([answer.status, answer.body]).toEqual([200, { status: 1 }]);
  }
  expect(await eventsOf(app, "ana")).toHaveLength(3);
  const body = { api_key: app.keys.pk_live, batch: [PAGE_EVENT] };
  await env.DB.prepare("UPDATE api_keys SET revoked_at_ms = 1 WHERE environment_id = ? AND kind = 'relay'")
    .bind(app.environments.live.id)
    .run();
  expectError(await call("POST", "/batch/", { key: relay, body }), "invalid_key");
});

it("a relay key is not looked for in an Authorization header that holds no key of Purser", async () => {
  const { app, call } = await world();
  for (const authorization of ["Basic dTpw", "Bearer eyJhbGciOiJIUzI1NiJ9.e30.x", ""]) {
    const body = { api_key: app.keys.pk_live, batch: [PAGE_EVENT] };
    expect((await call("POST", "/batch/", { headers: { authorization }, body })).status).toBe(200);
  }
});

it("a relay key rejects as malformed each event that names a key of another environment, in both protocols", async () => {
  const { app, call, relay } = await world();
  const other = await makeApp();
  const foreign = [other.keys.pk_live, app.keys.pk_test].flatMap((token) => [
    { ...PAGE_EVENT, properties: { token } },
    { ...PAGE_EVENT, api_key: token },
  ]);
  const batch = [...foreign, { ...PAGE_EVENT, properties: { token: app.keys.pk_live } }].map((event, index) => ({
    properties: {},
    ...event,
    uuid: uuid(index),
  }));
  const v0 = await call("POST", "/batch/", { key: relay, body: { batch } });
  expect(v0.status).toBe(200);
  expect(v0.body.refused.map(({ index, param }: { index: number; param: string }) => [index, param])).toEqual(
    [0, 1, 2, 3].map((index) => [index, "api_key"]),
  );
  const v1 = await call("POST", "/i/v1/analytics/events", { key: relay, body: { batch } });
  expect(batch.map((event) => v1.body.results[event.uuid].result)).toEqual(["drop", "drop", "drop", "drop", "ok"]);
  expect(await eventsOf(app, "ana")).toHaveLength(1);
  const whole = { api_key: other.keys.pk_live, batch: [PAGE_EVENT] };
  expectError(await call("POST", "/batch/", { key: relay, body: whole }), "invalid_request", "api_key");
});

it("a relay key in the header is not counted by address, and afterwards not in the body either", async () => {
  const { app, clock, relay } = await world();
  const call = makeClient(clock, { PUBLIC_REQUESTS: { limit: async () => ({ success: false }) } });
  const headers = { "cf-connecting-ip": "192.0.2.1" };
  const capture = (key: string) => call("POST", "/batch/", { headers, body: { api_key: key, batch: [PAGE_EVENT] } });
  expectError(await capture(app.keys.pk_live), "temporarily_unavailable");
  expectError(await capture(relay), "temporarily_unavailable");
  const proxied = { key: relay, headers, body: { api_key: app.keys.pk_live, batch: [PAGE_EVENT] } };
  expect((await call("POST", "/batch/", proxied)).status).toBe(200);
  // Now the isolate knows the address as a server's.
  expect((await capture(relay)).status).toBe(200);
});

it("a relay key is created by the administrator, who sees its kind", async () => {
  const { app, call } = await world();
  const path = `/api/v1/admin/apps/${app.appId}/keys`;
  const created = await call("POST", path, {
    key: env.ADMIN_TOKEN,
    body: { kind: "relay", mode: "live", name: "CDP" },
  });
  expect(created.status).toBe(200);
  expect([created.body.kind, created.body.key.slice(0, 8)]).toEqual(["relay", "rk_live_"]);
  const listed = await call("GET", path, { key: env.ADMIN_TOKEN });
  expect(listed.body.keys.at(-1)).toMatchObject({ keyId: created.body.keyId, kind: "relay", name: "CDP" });
  const body = { api_key: created.body.key, batch: [PAGE_EVENT] };
  expect((await call("POST", "/batch/", { body })).status).toBe(200);
  await call("DELETE", `${path}/${created.body.keyId}`, { key: env.ADMIN_TOKEN });
  expectError(await call("POST", "/batch/", { body }), "invalid_key");
});
