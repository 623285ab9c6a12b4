import { env } from "cloudflare:workers";
import { Hono } from "hono";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { createWorkerApp } from "../../../src/app.ts";
import { countArrival } from "../../../src/auth/arrivals.ts";
import { dashboardRoutes } from "../../../src/dashboard/routes.tsx";
import { writeKey } from "../../../src/db/key-form.ts";
import type { AppEnv } from "../../../src/http/factory.ts";
import { randomId } from "../../../src/lib/ids.ts";
import { countingD1 } from "../../support/counting-d1.ts";
import { END_USER_SETTING } from "../../support/end-user-setting.ts";
import { callKeyed, keyedRoutes, prepareKeyed } from "../../support/keyed-routes.ts";
import { LIST } from "../../support/paths.ts";
import { expectError } from "../../support/rejections.ts";
import { bound, type Client, Clock, makeApp, makeClient, makePack, startIsolate } from "../../support/world.ts";
import { wrappedD1 } from "../../support/wrapped-d1.ts";

const headers = (address: string) => ({ "cf-connecting-ip": address });
/** A rate limiter that rejects every request. */
const full: RateLimit = { limit: async () => ({ success: false }) };
/** A rate limiter that the test switches between rejecting and accepting every request. */
function switched() {
  let isFull = false;
  const limiter: RateLimit = { limit: async () => ({ success: !isFull }) };
  return {
    limiter,
    fill: (to: boolean) => {
      isFull = to;
    },
  };
}

async function world() {
  const app = await makeApp(END_USER_SETTING);
  await makePack(app.appId, "Pack", [{ amountMinor: 1_000, unit: "tokens" }]);
  const clock = new Clock();
  return { app, clock, call: makeClient(clock) };
}

/** Sends requests a hundred at a time, and returns how many responses had each status. */
async function sendMany(count: number, send: (n: number) => Promise<{ status: number }>): Promise<Map<number, number>> {
  const statuses = new Map<number, number>();
  for (let sent = 0; sent < count; sent += 100) {
    const batch = Array.from({ length: Math.min(100, count - sent) }, (_, n) => send(sent + n));
    for (const { status } of await Promise.all(batch)) statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
  return statuses;
}
/** Sends requests with malformed keys, which need no query. All of them count. */
const sendMalformed = (call: Client, address: string, count: number) =>
  sendMany(count, () => call("GET", LIST, { key: "pk_live_made-up", headers: headers(address) }));
const askConfig = (call: Client, key: string, address: string) => () =>
  call("GET", `/array/${key}/config`, { headers: headers(address) });

it.each([
  ["", {}],
  [", also where the platform counts each of them", { PUBLIC_REQUESTS: { limit: async () => ({ success: true }) } }],
])(
  "addresses with the same first 48 bits have sixteen shares together, however many they are%s",
  async (_, bindings) => {
    const clock = new Clock();
    const [env, runtime] = [bound(bindings), { isolate: {}, now: clock.now, newId: randomId }];
    const count = (address: string) =>
      countArrival({ env, runtime, request: new Request("https://purser.test", { headers: headers(address) }) });
    for (let n = 0; n < 16 * 1_200; n++) await count(`2001:db8:1:${(n % 15_000).toString(16)}::1`);
    await expect(count("2001:db8:1:ffff::1")).rejects.toMatchObject({ code: "rate_limited" });
    await count("2001:db8:2:1::1");
    clock.advance(61_000);
    await count("2001:db8:1:ffff::1");
  },
);

/** The routes to which PostHog's clients send events. */
const CAPTURES = /^\/(batch|e|i\/v0\/e|capture|track|i\/v1\/analytics\/events)\/?$/;
const tooManyAt = (path: string) => (CAPTURES.test(path) ? "temporarily_unavailable" : "rate_limited");

/** Every route of the Worker, with `x` for each parameter of its path. */
const routes = [...createWorkerApp().routes, ...new Hono<AppEnv>().route("/admin", dashboardRoutes()).routes]
  .filter(({ method }) => method !== "ALL")
  .map(({ method, path }) => ({ method, path: path.replaceAll(/:(\w+)(\{[^}]*\})?/g, "x").replace("*", "x") }))
  .filter(
    (route, index, all) =>
      all.findIndex((other) => other.path === route.path && other.method === route.method) === index,
  );

/** Headers of a form, a page's session, and a Stripe event with a malformed signature. */
const sent = {
  "content-type": "application/x-www-form-urlencoded",
  "sec-fetch-site": "same-origin",
  "stripe-signature": "t=1",
  cookie: "purser_session=ses_none.none",
};
const packed = await new Response(
  new Response('{"api_key":"x","batch":[]}').body?.pipeThrough(new CompressionStream("gzip")),
).arrayBuffer();
const bodies = [
  '{"api_key":"x","batch":[]}',
  "name=%00&token=x",
  Array.from({ length: 25_000 }, (_, n) => `f${n}=1`).join("&"),
  packed,
];
const issued = writeKey("publishable", { id: 1, appId: `app_${"0".repeat(23)}`, mode: "live" }, "p".repeat(22));

it.each(routes)(
  "a request above its address's limit is not unpacked, parsed or hashed, and sends no query to D1: $method $path",
  async ({ method, path }) => {
    const { d1, spent } = countingD1(env.DB);
    const app = startIsolate(new Clock());
    const none = bound({ DB: d1, SPARE: d1, PUBLIC_REQUESTS: full, STRIPE_REQUESTS: full });
    const work = [
      ...[vi.spyOn(JSON, "parse"), vi.spyOn(globalThis, "DecompressionStream")],
      ...[vi.spyOn(Request.prototype, "arrayBuffer"), vi.spyOn(Response.prototype, "formData")],
      // Only a hash shows whether a token is the administrator's, whose requests are served.
      ...(path.startsWith("/api/v1/admin/") ? [] : [vi.spyOn(crypto.subtle, "digest")]),
      ...[vi.spyOn(crypto.subtle, "sign"), vi.spyOn(crypto.subtle, "verify")],
    ];
    const answers: Response[] = [];
    for (const authorization of ["", `Bearer ${issued}`, `Bearer sk_live_${"1".repeat(100_000)}`]) {
      for (const text of method === "GET" ? [""] : bodies) {
        const init = {
          method,
          headers: { ...sent, authorization },
          ...(text === "" ? {} : { body: text }),
        };
        answers.push(await app.request(`http://purser.test${path}`, init, none));
      }
    }
    for (const each of work) expect(each).not.toHaveBeenCalled();
    vi.restoreAllMocks();
    expect(spent().roundTrips).toBe(0);
    for (const answer of answers) {
      const { error } = await answer.json<{ error: { code: string } }>();
      expect(error.code).toBe(tooManyAt(path));
      expect(answer.headers.get("retry-after")).toBe("60");
      if (path.endsWith("/export-download")) expect(answer.headers.get("referrer-policy")).toBe("no-referrer");
    }
  },
);

it("a request above its address's limit is rejected on every route without a key, from the 1,201st in a minute on", async () => {
  const { call } = await world();
  const paths = [
    "/health",
    "/api/v1/export-download?token=x",
    "/admin/assets/none",
    "/api/v1/export-document.schema.json",
  ];
  const ask = (n: number) => call("GET", paths[n % paths.length] ?? "", { headers: headers("192.0.2.1") });
  expect((await sendMany(1_200, ask)).get(429)).toBeUndefined();
  for (const [n, path] of paths.entries()) expect([path, (await ask(n)).status]).toEqual([path, 429]);
});

describe("requests of one address with a publishable key", () => {
  it("are limited to 1,200 a minute; other addresses and secret keys are not affected", async () => {
    const { app, clock, call } = await world();
    expect(await sendMalformed(call, "192.0.2.1", 1_190)).toEqual(new Map([[401, 1_190]]));
    expect(await sendMany(15, askConfig(call, app.keys.pk_live, "192.0.2.1"))).toEqual(
      new Map([
        [200, 10],
        [429, 5],
      ]),
    );
    const refused = await call("GET", `/array/${app.keys.pk_test}/config`, { headers: headers("192.0.2.1") });
    expectError(refused, "rate_limited");
    expect([refused.headers.get("retry-after"), refused.headers.get("access-control-allow-origin")]).toEqual([
      "60",
      "*",
    ]);
    const others = [
      await call("GET", `/array/${app.keys.pk_live}/config`, { headers: headers("192.0.2.2") }),
      await call("GET", LIST, { key: app.keys.sk_live, headers: headers("192.0.2.1") }),
    ];
    expect(others.map(({ status }) => status)).toEqual([200, 200]);
    clock.advance(60_000);
    expect((await askConfig(call, app.keys.pk_live, "192.0.2.1")()).status).toBe(200);
  });

  let shared: Awaited<ReturnType<typeof world>>;
  beforeAll(async () => {
    shared = await world();
    const { app, call } = shared;
    await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body: { userId: "u", packId: "Pack" } });
  });

  it.each(keyedRoutes.filter(({ kind }) => kind === "pk_live"))(
    "above the limit are refused before any query: $name",
    async (route) => {
      const { app, clock } = shared;
      const { d1, spent } = countingD1(env.DB);
      const limited = makeClient(clock, { DB: d1, PUBLIC_REQUESTS: full });
      const answer = await callKeyed(limited, clock, route, app.keys.pk_live, "limited");
      expectError(answer, tooManyAt(route.request("", "").path));
      expect(spent().roundTrips).toBe(0);
    },
  );

  it.each(keyedRoutes.filter(({ kind }) => kind === "sk_live").map((route, n) => ({ ...route, tag: `free${n}` })))(
    "do not limit requests with a secret key: $name",
    async ({ tag, ...route }) => {
      const { app, clock, call } = shared;
      await prepareKeyed(call, route, app, tag);
      const limited = makeClient(clock, { PUBLIC_REQUESTS: full });
      expect((await callKeyed(limited, clock, route, app.keys.sk_live, tag)).status).toBe(200);
    },
  );
});

it("requests of one address are counted by the isolate if the platform's rate limiter fails", async () => {
  const { app, clock } = await world();
  const failingLimiter: RateLimit = { limit: async () => Promise.reject(new Error("The limiter is down.")) };
  const call = makeClient(clock, { PUBLIC_REQUESTS: failingLimiter });
  expect(await sendMalformed(call, "192.0.2.7", 1_199)).toEqual(new Map([[401, 1_199]]));
  const statuses = await sendMany(2, askConfig(call, app.keys.pk_live, "192.0.2.7"));
  expect(statuses.get(200)).toBe(1);
});

it("an unknown key counts towards its address's limit, whether it is malformed, not issued, or missing from the body", async () => {
  const { app, clock, call } = await world();
  const limited = makeClient(clock, { PUBLIC_REQUESTS: full });
  const newKey = () => writeKey("secret", app.environments.live, randomId(""));
  for (const key of ["sk_live_made-up", newKey()]) {
    expectError(await call("GET", LIST, { key }), "invalid_key");
    expectError(await limited("GET", LIST, { key }), "rate_limited");
    const body = { userId: "u", packId: "Pack" };
    expectError(await call("POST", "/api/v1/credits/grant", { key, body }), "invalid_key");
    expectError(await limited("POST", "/api/v1/credits/grant", { key, body }), "rate_limited");
    expectError(await limited("POST", "/api/v1/credits/grant", { key, body: "{" }), "rate_limited");
  }
  const body = { event: "seen", distinct_id: "u" };
  expectError(await limited("POST", "/batch/", { body }), "temporarily_unavailable");
  expectError(await limited("POST", "/flags/", { body }), "rate_limited");
  expectError(await limited("POST", "/i/v1/analytics/events", { key: newKey(), body }), "temporarily_unavailable");
  expect((await limited("GET", LIST, { key: app.keys.sk_live })).status).toBe(200);
});

it("an unknown key above the limit is rejected without a bookmark or a challenge", async () => {
  const { app, clock } = await world();
  const limited = makeClient(clock, { PUBLIC_REQUESTS: full });
  const answer = await limited("GET", LIST, { key: writeKey("secret", app.environments.live, randomId("")) });
  expect([answer.headers.get("x-d1-bookmark"), answer.headers.get("www-authenticate")]).toEqual([null, null]);
});

it("an unknown key is rejected without another query for a minute, and counts each time", async () => {
  const { app, clock } = await world();
  const { d1, spent } = countingD1(env.DB);
  let counted = 0;
  const limiter: RateLimit = { limit: async () => ({ success: ++counted <= 1_200 }) };
  const call = makeClient(clock, { DB: d1, PUBLIC_REQUESTS: limiter });
  const key = writeKey("secret", app.environments.live, randomId(""));
  const post = () => call("POST", "/api/v1/credits/grant", { key, body: "{" });
  expectError(await post(), "invalid_key");
  expect([spent().roundTrips, counted]).toEqual([1, 1]);
  for (let n = 0; n < 5; n++) expectError(await post(), "invalid_key");
  expectError(await call("POST", "/batch/", { body: { api_key: key, batch: [] } }), "invalid_key");
  expect([spent().roundTrips, counted]).toEqual([0, 7]);
  // Rejections without a query do not make the minute longer.
  clock.advance(30_000);
  expectError(await post(), "invalid_key");
  expect([spent().roundTrips, counted]).toEqual([0, 8]);
  clock.advance(30_000);
  expectError(await post(), "invalid_key");
  expect([spent().roundTrips, counted]).toEqual([1, 9]);
});

it("an unknown key of a megabyte of digits causes no hash and no query", async () => {
  const { app, clock } = await world();
  const { d1, spent } = countingD1(env.DB);
  const call = makeClient(clock, { DB: d1 });
  const digest = vi.spyOn(crypto.subtle, "digest");
  const digits = "1".repeat(1024 * 1024);
  const key = `sk_live_${digits}`;
  for (const [method, path] of [
    ["GET", LIST],
    ["POST", "/api/v1/usage/events"],
    ["POST", "/i/v1/analytics/events"],
    ["GET", "/api/v1/admin/apps"],
  ] as const) {
    expectError(await call(method, path, { key, ...(method === "GET" ? {} : { body: `[${digits}]` }) }), "invalid_key");
  }
  expectError(await call("POST", "/batch/", { body: `{"api_key":"${key.slice(0, 900_000)}"}` }), "invalid_key");
  expect(digest).not.toHaveBeenCalled();
  digest.mockRestore();
  expect(spent().roundTrips).toBe(0);
  expect(app.keys.sk_live.length).toBeLessThan(68);
});

async function beyond() {
  const { app, clock } = await world();
  const { d1, spent } = countingD1(env.DB);
  const { limiter, fill } = switched();
  const call = makeClient(clock, { DB: d1, PUBLIC_REQUESTS: limiter });
  const list = (key: string, address = "192.0.2.1") => call("GET", LIST, { key, headers: headers(address) });
  const exceed = async () => {
    fill(true);
    expectError(await askConfig(call, app.keys.pk_live, "192.0.2.1")(), "rate_limited");
    spent();
  };
  return { app, clock, call, list, exceed, fill, spent };
}

it("from an address above its limit a key that this isolate found valid in the last minute is served, until it is revoked", async () => {
  const { app, clock, list, exceed } = await beyond();
  expect((await list(app.keys.sk_live)).status).toBe(200);
  await exceed();
  expect(await sendMany(20, () => list(app.keys.sk_live))).toEqual(new Map([[200, 20]]));
  await env.DB.prepare("UPDATE api_keys SET revoked_at_ms = 1 WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .run();
  expectError(await list(app.keys.sk_live), "rate_limited");
  clock.advance(60_000);
});

it("from an address above its limit other keys have a separate limit of 60 a minute, above which no query is sent", async () => {
  const { app, list, exceed, fill, spent } = await beyond();
  await exceed();
  const newKey = () => writeKey("secret", app.environments.live, randomId(""));
  expect(await sendMany(60, () => list(newKey()))).toEqual(new Map([[429, 60]]));
  expect(spent().roundTrips).toBeGreaterThanOrEqual(60);
  expect(await sendMany(20, () => list(newKey()))).toEqual(new Map([[429, 20]]));
  expectError(await list(app.keys.sk_live), "rate_limited");
  expect(spent().roundTrips).toBe(0);
  expect((await list(app.keys.sk_live, "192.0.2.2")).status).toBe(200);
  // The isolate knows the key now, whatever address it comes from.
  expect((await list(app.keys.sk_live)).status).toBe(200);
  fill(false);
});

it("from an address above its limit a key that is new to the isolate is served within that separate limit", async () => {
  const { app, list, exceed } = await beyond();
  await exceed();
  expect((await list(app.keys.sk_live)).status).toBe(200);
});

it("from an address above its limit the right administrator token is served and not counted, and a wrong one is counted and rejected", async () => {
  const { clock } = await world();
  let counted = 0;
  const limiter: RateLimit = {
    limit: async () => {
      counted++;
      return { success: false };
    },
  };
  const call = makeClient(clock, {
    PUBLIC_REQUESTS: limiter,
    ADMIN_TRIES: { limit: async () => ({ success: true }) },
  });
  const ask = (key: string) => call("GET", "/api/v1/admin/apps", { key, headers: headers("192.0.2.1") });
  expect((await ask(env.ADMIN_TOKEN)).status).toBe(200);
  expect(counted).toBe(0);
  expectError(await ask("wrong"), "rate_limited");
  expect(counted).toBe(1);
  expect((await ask(env.ADMIN_TOKEN)).status).toBe(200);
});

const batch = (n: number) => [
  { event: "seen", distinct_id: "u", uuid: `00000000-0000-4000-8000-${`${n}`.padStart(12, "0")}` },
];

it.each(["in the body", "in the header"])(
  "an honest server on one address may send batches above its address's limit, with its key %s",
  async (where) => {
    const { app, clock } = await world();
    const { limiter, fill } = switched();
    const call = makeClient(clock, { PUBLIC_REQUESTS: limiter });
    const inBody = where === "in the body";
    const send = (n: number) =>
      call("POST", "/batch/", {
        headers: headers("192.0.2.1"),
        ...(inBody ? {} : { key: app.keys.sk_live }),
        body: { ...(inBody ? { api_key: app.keys.sk_live } : {}), batch: batch(n) },
      });
    expect((await send(0)).status).toBe(200);
    fill(true);
    expect(await sendMany(20, send)).toEqual(new Map([[200, 20]]));
    // Its batches with a publishable key are not limited either: it forwards them for its pages.
    const body = { api_key: app.keys.pk_live, batch: batch(1) };
    expect(await sendMany(5, () => call("POST", "/batch/", { headers: headers("192.0.2.1"), body }))).toEqual(
      new Map([[200, 5]]),
    );
  },
);

it("an honest server on one address may be Stripe, whose requests have a separate, higher limit", async () => {
  const { app, clock } = await world();
  // No application accepts Stripe's events in a database without rows.
  const noRows: D1Result = { success: true, meta: {} as D1Result["meta"], results: [] };
  const d1 = wrappedD1(env.DB, async (_, statements) => statements.map(() => noRows));
  const call = makeClient(clock, { DB: d1 });
  const path = `/api/v1/stripe/${app.appId}/live`;
  const send = () => call("POST", path, { headers: headers("192.0.2.1"), body: "{}" });
  expect(await sendMany(1_400, send)).toEqual(new Map([[404, 1_400]]));
  // Stripe's requests are counted separately.
  expect(await sendMalformed(call, "192.0.2.1", 1)).toEqual(new Map([[401, 1]]));
});

it("an honest server on one address does not raise the limit of other addresses, which are told when to retry", async () => {
  const { app, clock } = await world();
  const { limiter, fill } = switched();
  const call = makeClient(clock, { PUBLIC_REQUESTS: limiter });
  const send = (key: string, address: string) =>
    call("POST", "/e/", { headers: headers(address), body: { api_key: key, batch: batch(1) } });
  expect((await send(app.keys.sk_live, "192.0.2.1")).status).toBe(200);
  fill(true);
  expect((await send(app.keys.sk_live, "192.0.2.1")).status).toBe(200);
  const refused = await send(app.keys.pk_live, "192.0.2.2");
  expectError(refused, "temporarily_unavailable");
  expect([refused.headers.get("retry-after"), refused.headers.get("access-control-allow-origin")]).toEqual(["60", "*"]);
  clock.advance(60_000);
  expectError(await send(app.keys.sk_live, "192.0.2.1"), "temporarily_unavailable");
});
