import { PostHog, type PostHogOptions } from "posthog-node";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { eventsIn, personIn } from "./support/people.ts";
import { type ServedApp, type Server, sharedServer } from "./support/server.ts";

let server: Server;
beforeAll(async () => {
  server = await sharedServer();
});
// The client also prints its errors. The tests read them from its events.
beforeEach(() => {
  for (const level of ["error", "warn"] as const) vi.spyOn(console, level).mockImplementation(() => {});
});
afterEach(() => {
  vi.restoreAllMocks();
  delete process.env.POSTHOG_CAPTURE_MODE;
});

/** Creates a client whose only special setting is its host. `failed` collects its errors. */
async function connect(mode: "v0" | "v1", options: PostHogOptions = {}, kind: "pk_live" | "sk_live" = "pk_live") {
  const app = await server.makeApp();
  process.env.POSTHOG_CAPTURE_MODE = mode;
  const failed: unknown[] = [];
  const paths: string[] = [];
  const client = new PostHog(app.keys[kind], {
    host: server.url,
    fetchRetryDelay: 50,
    fetch: (url, init) => {
      paths.push(new URL(url).pathname);
      return fetch(url, init as RequestInit);
    },
    ...options,
  });
  client.on("error", (error: unknown) => failed.push(error));
  return { app, client, failed, paths };
}

/** An id as posthog-js gives it to a device. */
const device = "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b";
const at = (app: ServedApp) => app.environmentIds.live;

describe.each(["v0", "v1"] as const)("posthog-node in %s mode", (mode) => {
  it("supports capture, identify, alias, groups and personless capture, and shuts down without losing events", async () => {
    const { app, client, failed, paths } = await connect(mode);
    const timestamp = new Date(Date.now() - 3_600_000);
    client.capture({ distinctId: device, event: "seen", properties: { page: "/", n: 1.5 }, timestamp });
    client.capture({ distinctId: "ghost", event: "seen", properties: { $process_person_profile: false } });
    client.identify({ distinctId: "ana", properties: { plan: "gold", $set_once: { first: "a" } } });
    client.alias({ distinctId: "ana", alias: device });
    client.alias({ distinctId: "ana", alias: "crm-7" });
    client.alias({ distinctId: "ana", alias: "anonymous" });
    client.groupIdentify({ groupType: "company", groupKey: "acme", properties: { size: 3 } });
    client.capture({ distinctId: "ana", event: "bought", groups: { company: "acme" }, properties: { $set: { n: 1 } } });
    await client.captureImmediate({ distinctId: "ana", event: "at once", properties: {} });
    await client.shutdown();

    expect(failed).toEqual([]);
    expect(new Set(paths)).toEqual(new Set([mode === "v0" ? "/batch/" : "/i/v1/analytics/events"]));
    const ana = await personIn(server.db, at(app), "ana");
    expect(ana?.isIdentified).toBe(true);
    expect(ana?.properties).toEqual({ plan: "gold", first: "a", n: 1 });
    expect(ana?.distinctIds).toEqual([device, "ana"]);
    const events = await eventsIn(server.db, at(app), ["ana", device]);
    expect(events.map((event) => event.event).sort()).toEqual(
      ["$create_alias", "$create_alias", "$create_alias", "$identify", "at once", "bought", "seen"].sort(),
    );
    const seen = events.find((event) => event.event === "seen");
    expect(seen?.properties).toMatchObject({ page: "/", n: 1.5, $lib: "posthog-node" });
    expect(Math.abs((seen?.timestampMs ?? 0) - timestamp.getTime())).toBeLessThan(60_000);
    const bought = events.find((event) => event.event === "bought");
    expect(bought?.properties).toMatchObject({ $groups: { company: "acme" } });
    expect(await personIn(server.db, at(app), "ghost")).toBeNull();
    expect(await eventsIn(server.db, at(app), ["ghost"])).toHaveLength(1);
    expect(await eventsIn(server.db, at(app), ["$company_acme"])).toHaveLength(1);
  });

  it("links users and ids of any form with the secret key, by claims that are verified", async () => {
    const { app, client, failed } = await connect(mode, {}, "sk_live");
    client.identify({ distinctId: "ana", properties: { plan: "gold" } });
    client.identify({ distinctId: "ana-2" });
    client.alias({ distinctId: "ana", alias: "ana-2" });
    client.alias({ distinctId: "ana", alias: "crm-7" });
    expect(await client.getAllFlags("ana")).toEqual({});
    await client.shutdown();
    expect(failed).toEqual([]);
    expect((await personIn(server.db, at(app), "ana"))?.distinctIds).toEqual(["ana", "ana-2", "crm-7"]);
    expect((await personIn(server.db, at(app), "ana-2"))?.claimedBy).toBe("ana!");
  });

  it("gets an error for an unknown key, and gives up immediately", async () => {
    const { client, failed, paths } = await connect(mode, { fetchRetryCount: 3 });
    const other = new PostHog("pk_live_0000000000000000000000", {
      host: server.url,
      fetchRetryDelay: 10,
      fetch: (url, init) => {
        paths.push(url);
        return fetch(url, init as RequestInit);
      },
    });
    other.on("error", (error: unknown) => failed.push(error));
    other.capture({ distinctId: "ana", event: "seen" });
    await other.shutdown();
    await client.shutdown();
    expect(paths).toHaveLength(1);
    expect(failed.length).toBeGreaterThan(0);
    expect(String(failed[0])).toContain("401");
  });

  it("gets a response without flags", async () => {
    const { client } = await connect(mode);
    expect(await client.isFeatureEnabled("beta", "ana")).toBeFalsy();
    expect(await client.getAllFlags("ana")).toEqual({});
    await client.shutdown();
  });
});

it("posthog-node retries after a lost response, and every event is stored once", async () => {
  const { app, client } = await connect("v0", {
    fetchRetryCount: 3,
    fetch: (() => {
      let calls = 0;
      return async (url: string, init: unknown) => {
        const response = await fetch(url, init as RequestInit);
        if (++calls > 1) return response;
        await response.text();
        throw new TypeError("fetch failed");
      };
    })(),
  });
  for (let index = 0; index < 5; index++) client.capture({ distinctId: "ana", event: `seen ${index}` });
  await client.shutdown();
  const events = await eventsIn(server.db, at(app), ["ana"]);
  expect(events.map((event) => event.event).sort()).toEqual([0, 1, 2, 3, 4].map((index) => `seen ${index}`));
});

it("posthog-node splits a batch that is too large, and every event arrives", async () => {
  const { app, client, failed } = await connect("v0", { disableCompression: true, flushAt: 40, maxBatchSize: 40 });
  const text = "x".repeat(60_000);
  for (let index = 0; index < 40; index++) client.capture({ distinctId: "ana", event: "seen", properties: { text } });
  await client.shutdown();
  expect(failed).toEqual([]);
  expect(await eventsIn(server.db, at(app), ["ana"])).toHaveLength(40);
});

it("posthog-node drops only the malformed event in v1 mode, and reports which", async () => {
  const { app, client, failed } = await connect("v1");
  client.capture({ distinctId: "ana", event: "seen" });
  client.capture({ distinctId: "x".repeat(201), event: "seen", uuid: "0190a5b4-1111-7abc-8def-0123456789ab" });
  await client.shutdown();
  expect(await eventsIn(server.db, at(app), ["ana"])).toHaveLength(1);
  expect(failed).toHaveLength(1);
  expect(JSON.stringify(failed[0])).toContain("0190a5b4-1111-7abc-8def-0123456789ab");
});
