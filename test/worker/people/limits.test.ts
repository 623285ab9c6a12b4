import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { claimsOf, eventsOf, idOf, idsOf, type SentEvent, send } from "../../support/people.ts";
import { expectError } from "../../support/refusals.ts";
import { Clock, makeApp, makeClient } from "../../support/world.ts";

const device = (n: number): string => `0194685f-8a3c-7d11-9f2b-${`${n}`.padStart(12, "0")}`;
const identify = (id: string, other: string): SentEvent => ({
  event: "$identify",
  distinct_id: id,
  uuid: crypto.randomUUID(),
  properties: { $anon_distinct_id: other },
});

async function world() {
  const app = await makeApp();
  return { app, call: makeClient(new Clock()), key: app.keys.pk_live };
}

describe("the claims of one id by publishable keys", () => {
  const star = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, n) => identify("ana", device(from + n)));

  it("are a thousand at most, in however many requests: further ones link nothing", async () => {
    const { app, call, key } = await world();
    await send(call, key, star(0, 600));
    await send(call, key, star(500, 999));
    const batch = star(998, 1_002);
    const answer = await call("POST", "/i/v1/analytics/events", { key, body: { batch } });
    expect(Object.values(answer.body.results)).toEqual(Array(4).fill({ result: "ok" }));
    expect(await claimsOf(app)).toHaveLength(1_000);
    expect(await eventsOf(app, "ana")).toHaveLength(600 + 499 + 4);

    await send(call, app.keys.sk_live, star(1_001, 1_002));
    expect(await claimsOf(app)).toHaveLength(1_001);
    await send(call, key, [identify("bob", device(1_001)), identify("bob", device(1_002))]);
    expect((await claimsOf(app)).filter((claim) => claim.endsWith("< bob"))).toHaveLength(1);
  });

  it("are a thousand at most also when requests race", async () => {
    const { app, call, key } = await world();
    await send(call, key, star(0, 990));
    await Promise.all(Array.from({ length: 8 }, (_, n) => send(call, key, star(1_000 + 4 * n, 1_004 + 4 * n))));
    expect(await claimsOf(app)).toHaveLength(1_000);
    expect(await eventsOf(app, "ana")).toHaveLength(990 + 32);
  });
});

describe("ids that hold many properties", () => {
  const seed = async (environmentId: number, count: number, bytes: number) => {
    const properties = JSON.stringify({ held: "x".repeat(bytes - 11) });
    await env.DB.prepare(
      `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
       INSERT INTO id_properties (environment_id, distinct_id, properties) SELECT CAST(?1 AS INTEGER), 'id-' || i, ?2 FROM n`,
    )
      .bind(environmentId, properties, count - 1)
      .run();
    return properties;
  };
  const setting = (count: number): SentEvent[] =>
    Array.from({ length: count }, (_, n) => ({
      event: "seen",
      distinct_id: `id-${n}`,
      uuid: `00000000-0000-4000-8000-${`${n}`.padStart(12, "0")}`,
      properties: { $set: { a: n }, ...(n % 7 === 0 ? { $process_person_profile: false } : {}) },
    }));

  it("are read a few at a time, and each is set", async () => {
    const { app, call, key } = await world();
    const held = await seed(app.environments.live.id, 100, 60_000);
    await send(call, key, setting(100));
    const ids = new Map((await idsOf(app)).map((row) => [row.distinctId, row]));
    for (let n = 0; n < 100; n++) {
      const expected = n % 7 === 0 ? held : `${held.slice(0, -1)},"a":${n}}`;
      expect(ids.get(`id-${n}`)?.properties === expected, `id-${n}`).toBe(true);
      expect(ids.get(`id-${n}`)?.eventCount).toBe(1);
    }
  });

  it("are refused as too much where no isolate should read them all, and half of them is taken", async () => {
    const { app, call, key } = await world();
    await seed(app.environments.live.id, 400, 60_000);
    const batch = setting(400);
    expectError(await call("POST", "/batch/", { body: { api_key: key, batch } }), "payload_too_large");
    for (const half of [batch.slice(0, 200), batch.slice(200)]) await send(call, key, half);
    const ids = await idsOf(app);
    expect(ids.map((row) => row.eventCount)).toEqual(Array.from({ length: 400 }, () => 1));
    expect((await idOf(app, "id-398"))?.properties?.endsWith(',"a":398}')).toBe(true);
  });
});
