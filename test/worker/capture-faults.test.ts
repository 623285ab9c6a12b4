import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { FAULTS, faultyD1 } from "../support/faulty-d1.ts";
import { eventsOf, personOf, type SentEvent } from "../support/people.ts";
import { Clock, makeApp, makeClient } from "../support/world.ts";

const batch: SentEvent[] = [
  { uuid: "00000000-0000-4000-8000-000000000001", event: "seen", distinct_id: "device" },
  {
    uuid: "00000000-0000-4000-8000-000000000002",
    event: "$identify",
    distinct_id: "ana",
    properties: { $anon_distinct_id: "device", $set: { n: 1 } },
  },
  { uuid: "00000000-0000-4000-8000-000000000003", event: "seen", distinct_id: "ana" },
];

describe("a capture whose trips to D1 fail", () => {
  const CASES = FAULTS.flatMap((fault) =>
    [1, 2, 3].flatMap((at) => [false, true].map((persists) => ({ fault, at, persists }))),
  );

  it.each(CASES)(
    "lands once, also when its client sends it again: $fault at trip $at, lasting: $persists",
    async (plan) => {
      const faulty = faultyD1(env.DB);
      const call = makeClient(new Clock(), { DB: faulty.d1 });
      const app = await makeApp();
      const body = { api_key: app.keys.pk_live, batch };
      faulty.plan(plan);
      const first = await call("POST", "/batch/", { body });
      expect([200, 503]).toContain(first.status);
      if (first.status === 503) expect(first.headers.get("retry-after")).not.toBeNull();
      faulty.plan(null);
      const stored = async () => [...(await eventsOf(app, "ana")), ...(await eventsOf(app, "device"))].length;
      if (first.status === 200) expect(await stored()).toBe(3);
      else expect([0, 3]).toContain(await stored());
      expect((await call("POST", "/batch/", { body })).status).toBe(200);
      expect(await stored()).toBe(3);
      const { person, distinctIds } = await personOf(app, "device");
      expect(person).toMatchObject({ isIdentified: true, properties: '{"n":1}', version: 1 });
      expect(distinctIds.map((row) => [row.distinctId, row.eventCount])).toEqual([
        ["ana", 2],
        ["device", 1],
      ]);
    },
  );
});

it("an event whose landing's answer was lost is answered with its warning all the same", async () => {
  const faulty = faultyD1(env.DB);
  const call = makeClient(new Clock(), { DB: faulty.d1 });
  const app = await makeApp();
  const uuid = crypto.randomUUID();
  const event = { uuid, event: "$identify", distinct_id: "ana", properties: { $anon_distinct_id: "guest" } };
  faulty.plan({ fault: "after", at: 3 });
  const answer = await call("POST", "/i/v1/analytics/events", { key: app.keys.pk_live, body: { batch: [event] } });
  expect(faulty.trips()).toBeGreaterThan(3);
  expect(answer.body.results).toEqual({ [uuid]: { result: "warning", details: expect.any(String) } });
  expect(await eventsOf(app, "ana")).toHaveLength(1);
});
