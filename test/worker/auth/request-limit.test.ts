import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { writeKey } from "../../../src/auth/key.ts";
import { randomId } from "../../../src/lib/ids.ts";
import { countingD1 } from "../../support/counting-d1.ts";
import { callKeyed, END_USER_SETTING, keyedRoutes, prepareKeyed } from "../../support/keyed-routes.ts";
import { expectError } from "../../support/refusals.ts";
import { type Client, Clock, makeApp, makeClient, makePack } from "../../support/world.ts";

const LIST = "/api/v1/credits?userId=u";
const headers = (address: string) => ({ "cf-connecting-ip": address });
/** What the platform says when it has counted enough. */
const full: RateLimit = { limit: async () => ({ success: false }) };

async function world() {
  const app = await makeApp(END_USER_SETTING);
  await makePack(app.appId, "Pack", [{ amountSteps: 1_000, unit: "tokens" }]);
  const clock = new Clock();
  return { app, clock, call: makeClient(clock) };
}

/** Sends this many requests of one address with a key, and answers the statuses. */
async function sendMany(call: Client, count: number, key: string, address: string): Promise<Map<number, number>> {
  const statuses = new Map<number, number>();
  for (let sent = 0; sent < count; sent += 100) {
    const send = () => call("GET", `/array/${key}/config`, { headers: headers(address) });
    for (const { status } of await Promise.all(Array.from({ length: Math.min(100, count - sent) }, send))) {
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  }
  return statuses;
}

describe("requests of one address with a publishable key", () => {
  it("are 1,200 a minute; then they wait, and other addresses and secret keys do not", async () => {
    const { app, clock, call } = await world();
    expect(await sendMany(call, 1_205, app.keys.pk_live, "192.0.2.1")).toEqual(
      new Map([
        [200, 1_200],
        [429, 5],
      ]),
    );
    const { d1, spent } = countingD1(env.DB);
    expect(spent().roundTrips).toBe(0);
    const refused = await call("GET", `/array/${app.keys.pk_test}/config`, { headers: headers("192.0.2.1") });
    expectError(refused, "rate_limited");
    expect([refused.headers.get("retry-after"), refused.headers.get("access-control-allow-origin")]).toEqual([
      "60",
      "*",
    ]);
    expect((await makeClient(clock, { DB: d1 })("GET", "/health")).status).toBe(200);
    const others = [
      await call("GET", `/array/${app.keys.pk_live}/config`, { headers: headers("192.0.2.2") }),
      await call("GET", LIST, { key: app.keys.sk_live, headers: headers("192.0.2.1") }),
    ];
    expect(others.map(({ status }) => status)).toEqual([200, 200]);
    clock.advance(60_000);
    const later = await call("GET", `/array/${app.keys.pk_live}/config`, { headers: headers("192.0.2.1") });
    expect(later.status).toBe(200);
  });

  it.each(keyedRoutes.filter(({ kind }) => kind === "pk_live"))(
    "are refused before anything is asked or done: $name",
    async (route) => {
      const { app, clock } = await world();
      const { d1, spent } = countingD1(env.DB);
      const limited = makeClient(clock, { DB: d1, PUBLIC_REQUESTS: full });
      expectError(await callKeyed(limited, clock, route, app.keys.pk_live, "limited"), "rate_limited");
      expect(spent().roundTrips).toBe(0);
    },
  );

  it.each(keyedRoutes.filter(({ kind }) => kind === "sk_live"))(
    "are no matter of a secret key: $name",
    async (route) => {
      const { app, clock, call } = await world();
      await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body: { userId: "u", packId: "Pack" } });
      await prepareKeyed(call, route, app, "free");
      const limited = makeClient(clock, { PUBLIC_REQUESTS: full });
      expect((await callKeyed(limited, clock, route, app.keys.sk_live, "free")).status).toBe(200);
    },
  );
});

it("where the platform cannot count, the isolate does", async () => {
  const { app, clock } = await world();
  const broken: RateLimit = { limit: async () => Promise.reject(new Error("The limiter is down.")) };
  const call = makeClient(clock, { PUBLIC_REQUESTS: broken });
  const statuses = await sendMany(call, 1_201, app.keys.pk_live, "192.0.2.7");
  expect(statuses.get(200)).toBe(1_200);
});

describe("requests whose key proves unknown", () => {
  it("are counted, whatever was wrong with it: no form, no such key, revoked, none in a body", async () => {
    const { app, clock, call } = await world();
    const limited = makeClient(clock, { PUBLIC_REQUESTS: full });
    const unknown = writeKey("secret", app.environments.live, randomId(""));
    for (const key of ["sk_live_made-up", unknown]) {
      expectError(await call("GET", LIST, { key }), "invalid_key");
      expectError(await limited("GET", LIST, { key }), "rate_limited");
      const body = { userId: "u", packId: "Pack" };
      expectError(await call("POST", "/api/v1/credits/grant", { key, body }), "invalid_key");
      expectError(await limited("POST", "/api/v1/credits/grant", { key, body }), "rate_limited");
      expectError(await limited("POST", "/api/v1/credits/grant", { key, body: "{" }), "rate_limited");
    }
    expectError(await limited("POST", "/batch/", { body: { event: "seen", distinct_id: "u" } }), "rate_limited");
    expect((await limited("GET", LIST, { key: app.keys.sk_live })).status).toBe(200);
  });

  it("carry no bookmark when they are too many", async () => {
    const { app, clock } = await world();
    const limited = makeClient(clock, { PUBLIC_REQUESTS: full });
    const answer = await limited("GET", LIST, { key: writeKey("secret", app.environments.live, randomId("")) });
    expect(answer.headers.get("x-d1-bookmark")).toBeNull();
  });
});
