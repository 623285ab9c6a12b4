import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { FAULTS, faultyD1 } from "../../../support/faulty-d1.ts";
import { eventsOf, idsOf, type SentEvent } from "../../../support/people.ts";
import { Clock, makeApp, makeClient } from "../../../support/world.ts";

const device = "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b";
const batch: SentEvent[] = [
  { uuid: "00000000-0000-4000-8000-000000000001", event: "seen", distinct_id: device },
  {
    uuid: "00000000-0000-4000-8000-000000000002",
    event: "$identify",
    distinct_id: "ana",
    properties: { $anon_distinct_id: device, $set: { n: 1 } },
  },
  { uuid: "00000000-0000-4000-8000-000000000003", event: "seen", distinct_id: "ana" },
];

const CASES = FAULTS.flatMap((fault) =>
  [1, 2, 3].flatMap((at) => [false, true].map((persists) => ({ fault, at, persists }))),
);

it.each(CASES)(
  "a capture whose trips to D1 fail is stored once, even if its client sends it again: $fault at trip $at, lasting: $persists",
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
    const stored = async () => [...(await eventsOf(app, "ana")), ...(await eventsOf(app, device))].length;
    if (first.status === 200) expect(await stored()).toBe(3);
    else expect([0, 3]).toContain(await stored());
    expect((await call("POST", "/batch/", { body })).status).toBe(200);
    expect(await stored()).toBe(3);
    expect(await idsOf(app)).toMatchObject([
      {
        distinctId: device,
        eventCount: 1,
        eventBytes: 2,
        claimedBy: "ana",
        isVerified: 0,
        version: 1,
        isIdentified: 0,
      },
      { distinctId: "ana", eventCount: 2, claimedBy: null, isIdentified: 1, properties: '{"n":1}' },
    ]);
  },
);

it.each(FAULTS)("a capture without data about people is stored once in its one trip: %s", async (fault) => {
  const faulty = faultyD1(env.DB);
  const call = makeClient(new Clock(), { DB: faulty.d1 });
  const app = await makeApp();
  const plain = Array.from({ length: 5 }, (_, n) => ({
    uuid: `00000000-0000-4000-8000-00000000001${n}`,
    event: "seen",
    distinct_id: `id-${n % 2}`,
  }));
  const body = { api_key: app.keys.pk_live, batch: plain };
  faulty.plan({ fault, at: 1 });
  const { status } = await call("POST", "/batch/", { body });
  expect(status).toBe(fault === "overloaded" ? 503 : 200);
  faulty.plan(null);
  expect((await call("POST", "/batch/", { body })).status).toBe(200);
  expect(faulty.trips()).toBe(1);
  expect(await idsOf(app)).toMatchObject([
    { distinctId: "id-0", eventCount: 3, eventBytes: 6, isSender: 1 },
    { distinctId: "id-1", eventCount: 2, eventBytes: 4, isSender: 1 },
  ]);
});

it("an event with a lost response is still answered with its warning", async () => {
  const faulty = faultyD1(env.DB);
  const call = makeClient(new Clock(), { DB: faulty.d1 });
  const app = await makeApp();
  const uuid = crypto.randomUUID();
  const event = { uuid, event: "$identify", distinct_id: "ana", properties: { $anon_distinct_id: "guest" } };
  faulty.plan({ fault: "after", at: 2 });
  const answer = await call("POST", "/i/v1/analytics/events", { key: app.keys.pk_live, body: { batch: [event] } });
  expect(faulty.trips()).toBeGreaterThan(2);
  expect(answer.body.results).toEqual({ [uuid]: { result: "warning", details: expect.any(String) } });
  expect(await eventsOf(app, "ana")).toHaveLength(1);
});
