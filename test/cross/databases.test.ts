import { env } from "cloudflare:workers";
import { afterAll, beforeEach, describe, expect, it, vi } from "vitest";
import { scheduled } from "../../src/cron.ts";
import { randomId } from "../../src/lib/ids.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { expectError } from "../support/rejections.ts";
import { type Bindings, bound, type Client, Clock, home, homeOf, inTurn, makeClient } from "../support/world.ts";
import { wrappedD1 } from "../support/wrapped-d1.ts";

// Rules D1 and D2: applications are in several databases, each of which may fail alone.

afterAll(expectLedgerInvariants);
beforeEach(() => {
  // Repeated attempts do not wait.
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  vi.spyOn(console, "warn").mockReturnValue();
});

const down = (d1: D1Database) => wrappedD1(d1, () => Promise.reject(new Error("D1_ERROR: Network connection lost.")));
/** Bindings in which one of the two databases cannot be reached. */
const without = (index: 0 | 1): Bindings => (index === home() ? { DB: down(env.DB) } : { SPARE: down(env.SPARE) });
const nameOf = (index: number) => (index === 0 ? "DB" : "DB_1");

/** An application of a database, whose user "u" has ten tokens. */
async function makeIn(call: Client, index: 0 | 1) {
  const admin = (path: string, body: object) =>
    call("POST", `/api/v1/admin/apps${path}`, { key: env.ADMIN_TOKEN, body });
  const answer = await admin("", { name: "Several", database: nameOf(index) });
  expect(answer.body.database).toBe(nameOf(index));
  const { appId } = answer.body;
  const { key } = (await admin(`/${appId}/keys`, { kind: "secret", mode: "live" })).body;
  await admin(`/${appId}/packs`, { packName: "Pack", items: [{ amount: 10, unit: "tokens" }] });
  const granted = await call("POST", "/api/v1/credits/grant", { key, body: { userId: "u", packId: "Pack" } });
  expect(granted.status).toBe(200);
  return { appId: appId as string, key: key as string };
}

const list = (call: Client, key: string) => call("GET", "/api/v1/credits?userId=u", { key });
const appsOf = (call: Client) => call("GET", "/api/v1/admin/apps", { key: env.ADMIN_TOKEN });

it("an application is created in the named database, else in the default one; an unbound database is rejected", async () => {
  const call = makeClient(new Clock());
  const admin = (body: object) => call("POST", "/api/v1/admin/apps", { key: env.ADMIN_TOKEN, body });
  for (const database of ["DB", "DB_1"]) {
    const { body } = await admin({ name: "Named", database });
    expect([body.database, body.appId.at(-1)]).toEqual([database, database === "DB" ? "0" : "1"]);
  }
  expect((await admin({ name: "Default" })).body.database).toBe(nameOf(home()));
  for (const database of ["DB_2", "db", "", "ADMIN_TOKEN"]) {
    expectError(await admin({ name: "Nowhere", database }), "invalid_request", "database");
  }
});

describe.each([0, 1] as const)("while database %i cannot be reached", (index) => {
  const other = index === 0 ? 1 : 0;

  it("only applications in it fail", async () => {
    const clock = new Clock();
    const whole = makeClient(clock);
    const [mine, others] = [await makeIn(whole, index), await makeIn(whole, other)];
    const call = makeClient(clock, without(index));
    expectError(await list(call, mine.key), "temporarily_unavailable");
    expect((await list(call, others.key)).body.credits).toMatchObject([{ remaining: 10 }]);
    const apps = `/api/v1/admin/apps`;
    expectError(await call("GET", `${apps}/${mine.appId}/packs`, { key: env.ADMIN_TOKEN }), "temporarily_unavailable");
    expect((await call("GET", `${apps}/${others.appId}/packs`, { key: env.ADMIN_TOKEN })).status).toBe(200);
  });

  it("the list of applications has those of the other database, and names the unreachable one", async () => {
    const whole = makeClient(new Clock());
    const [mine, others] = [await makeIn(whole, index), await makeIn(whole, other)];
    expect((await appsOf(whole)).body.unreachable).toBeUndefined();
    const { status, body } = await appsOf(makeClient(new Clock(), without(index)));
    expect([status, body.unreachable]).toEqual([200, [nameOf(index)]]);
    const ids = body.apps.map(({ appId }: { appId: string }) => appId);
    expect([ids.includes(mine.appId), ids.includes(others.appId)]).toEqual([false, true]);
    expect(new Set(body.apps.map(({ database }: { database: string }) => database))).toEqual(new Set([nameOf(other)]));
  });

  it("the health page checks only DB", async () => {
    const answer = await makeClient(new Clock(), without(index))("GET", "/health");
    if (index === 0) expectError(answer, "temporarily_unavailable");
    else expect(answer.body).toEqual({ status: "ok" });
  });

  it("the cron returns holds in the other database, and those in this one once it can be reached", async () => {
    const log = vi.spyOn(console, "error").mockReturnValue();
    const clock = new Clock();
    const call = makeClient(clock);
    const apps = [await makeIn(call, index), await makeIn(call, other)] as const;
    for (const { key } of apps) {
      const body = { userId: "u", event: "e", quantities: { count: 0, tokens: 4 }, expiresInSeconds: 1 };
      expect((await call("POST", "/api/v1/usage/reservations", { key, body })).status).toBe(200);
    }
    clock.advance(1_000);
    const remaining = async () =>
      Promise.all(apps.map(async ({ key }) => (await list(call, key)).body.credits[0].remaining));
    const tick = (bindings: Bindings) => scheduled(bound(bindings), { isolate: {}, now: clock.now, newId: randomId });
    await tick(without(index));
    expect(await remaining()).toEqual([6, 10]);
    const codes = log.mock.calls.map(([line]) => JSON.parse(String(line)).code);
    expect(codes).toEqual(expect.arrayContaining(["holds_not_returned", "periods_not_granted"]));
    await tick({});
    expect(await remaining()).toEqual([10, 10]);
  });
});

it("the list of applications is temporarily unavailable while no database can be reached", async () => {
  const call = makeClient(new Clock(), { DB: down(env.DB), SPARE: down(env.SPARE) });
  expectError(await appsOf(call), "temporarily_unavailable");
});

it("an export link opens the data of its own application, in any database", async () => {
  const call = makeClient(new Clock());
  for (const index of [0, 1] as const) {
    const { key, appId } = await makeIn(call, index);
    const minted = await call("POST", "/api/v1/export-person", { key, body: { distinctId: "u" } });
    const { body } = await call("GET", minted.body.downloadUrl);
    expect([body.appId, body.person.credits.balances[0].remaining]).toEqual([appId, 10]);
  }
});

it("usage is priced by the list of its own application, in any database, also where their numbers are equal", async () => {
  const clock = new Clock();
  const call = makeClient(clock, {}, randomId, inTurn(2));
  const apps = [await makeIn(call, 0), await makeIn(call, 1)] as const;
  const price = async (key: string, meters: object = {}) =>
    (await call("POST", "/api/v1/usage/price", { key, body: { event: "chat", meters } })).body;
  const set = async (appId: string, perEvent: number) => {
    const body = { mode: "live", rules: [{ unit: "tokens", perEvent }] };
    const answer = await call("PUT", `/api/v1/admin/apps/${appId}/prices`, { key: env.ADMIN_TOKEN, body });
    return answer.body.version;
  };
  for (const version of [1, 2]) {
    // Both databases number their environments and versions alike. The isolates remember versions of both.
    expect([await set(apps[0].appId, version), await set(apps[1].appId, 3 + version)]).toEqual([version, version]);
    for (const [index, { key }] of apps.entries()) {
      const tokens = index === 0 ? version : 3 + version;
      expect(await price(key)).toMatchObject({ quantities: { tokens }, priceVersion: version });
      const event = { eventId: `e${version}`, userId: "u", event: "chat", meters: {}, onShortage: "partial" };
      const used = await call("POST", "/api/v1/usage/events", { key, body: event });
      expect(used.body).toMatchObject({ quantities: { tokens }, priceVersion: version });
    }
    clock.advance(1_000);
  }
});

it("a test file has the same database in every clone, and the other one when the databases are swapped", () => {
  for (const inside of [
    "/test/cross/table-scans.test.ts",
    "/test/cross/deployment-costs.test.ts",
    "/test/worker/db/schema.test.ts",
  ]) {
    const homes = ["/purser", "/purses", "/home/test/purser"].map((clone) => homeOf(clone + inside, false));
    expect(new Set(homes).size).toBe(1);
    expect(homeOf(`/purser${inside}`, true)).not.toBe(homes[0]);
  }
});
