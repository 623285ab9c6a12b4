import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { countingD1 } from "../support/counting-d1.ts";
import { FAULTS, faultyD1 } from "../support/faulty-d1.ts";
import { claimsOf, eventsOf, identify, idOf, idsOf, personIds, type SentEvent, seen } from "../support/people.ts";
import { createRandom } from "../support/random.ts";
import { RANDOM_SEED, soakCount, soakPart, timeoutOf } from "../support/soak.ts";
import { type Client, Clock, makeApp, makeClient, makeOpenAmountPack, type TestApp } from "../support/world.ts";

// An isolate remembers which changes of people it has applied, so that a repeat takes one trip. The stored data and the responses
// are always the same as without memory.

const HISTORIES = soakCount(2, 24);
const DEVICE = "0190d6a1-0000-7000-8000-000000000001";
const OTHER = "0190d6a1-0000-7000-8000-000000000002";

const capture = (call: Client, key: string, events: readonly SentEvent[]) =>
  call("POST", "/i/v1/analytics/events", {
    key,
    body: { batch: events.map((event) => ({ ...event, uuid: crypto.randomUUID() })) },
  });

const resultsOf = async (call: Client, key: string, events: readonly SentEvent[]) => {
  const answer = await capture(call, key, events);
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return Object.values(answer.body.results).toReversed();
};

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const pack = await makeOpenAmountPack(app.appId, "Wallet", "cents");
  const grant = async (userId: string) => {
    const body = { userId, packId: pack, quantity: 1 };
    const granted = await makeClient(clock)("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body });
    expect(granted.status).toBe(200);
  };
  return { clock, app, grant, isolate: () => makeClient(clock), key: app.keys.pk_live, secret: app.keys.sk_live };
}

it("an event that an isolate has applied before sets its property again if another isolate has since set another value or unset it", async () => {
  const { app, isolate, key } = await world();
  const [one, other] = [isolate(), isolate()];
  const setting = seen("ana", { $set: { plan: "a" } });
  for (const change of [{ $set: { plan: "b" } }, { $unset: ["plan"] }, { $set: { plan: "c" }, $unset: ["x"] }]) {
    for (let times = 0; times < 2; times++) await capture(one, key, [setting]);
    await capture(other, key, [seen("ana", change)]);
    await capture(one, key, [setting]);
    expect((await idOf(app, "ana"))?.properties).toBe('{"plan":"a"}');
  }
  expect(await eventsOf(app, "ana")).toHaveLength(12);
});

it("an event that an isolate has applied before links nothing after the other id became a user or was linked by a secret key", async () => {
  const { app, clock, isolate, key, secret, grant } = await world();
  const call = isolate();
  const link = identify("ana", DEVICE);
  for (let times = 0; times < 3; times++) expect(await resultsOf(call, key, [link])).toEqual([{ result: "ok" }]);
  await grant(DEVICE);
  expect(await resultsOf(call, key, [link])).toEqual([{ result: "ok" }]);
  expect(await personIds(makeClient(clock), app, "ana")).toEqual(["ana"]);

  const second = identify("bob", OTHER);
  for (let times = 0; times < 2; times++) expect(await resultsOf(call, key, [second])).toEqual([{ result: "ok" }]);
  await resultsOf(isolate(), secret, [identify("eve", OTHER)]);
  expect(await resultsOf(call, key, [second])).toEqual([{ result: "ok" }]);
  expect(await claimsOf(app)).toContain(`${OTHER} < eve!`);
});

it("an event that an isolate has applied before links nothing after an earlier event of the same batch makes the other id a user", async () => {
  const { app, clock, isolate, key } = await world();
  const call = isolate();
  const link = identify("ana", DEVICE);
  for (let times = 0; times < 2; times++) await resultsOf(call, key, [link]);
  await resultsOf(call, key, [seen(DEVICE, { $is_identified: true }), link]);
  expect(await personIds(makeClient(clock), app, "ana")).toEqual(["ana"]);
});

it("an event that an isolate has applied before takes one trip, writes 5 rows and reads at most 46", async () => {
  const { app, clock, key } = await world();
  const counting = countingD1(env.DB);
  const call = makeClient(clock, { DB: counting.d1 });
  const events = [identify("ana", DEVICE, { $set: { a: 1 }, $set_once: { b: 2 } }), seen("ana", { $set: { a: 1 } })];
  for (let times = 0; times < 2; times++) for (const event of events) await capture(call, key, [event]);
  for (const event of [...events, ...events]) {
    counting.spent();
    await capture(call, key, [event]);
    const spent = counting.spent();
    expect(spent).toMatchObject({ roundTrips: 1, rowsWritten: 5 });
    expect(spent.rowsRead).toBeLessThanOrEqual(46);
  }
  expect(await eventsOf(app, "ana")).toHaveLength(8);
});

it.each(FAULTS.flatMap((fault) => [1, 2].map((at) => ({ fault, at }))))(
  'an event that an isolate has applied before takes effect once if a trip fails: fault "$fault" at trip $at',
  async (plan) => {
    const { app, clock, key } = await world();
    const faulty = faultyD1(env.DB);
    const call = makeClient(clock, { DB: faulty.d1 });
    const event = identify("ana", DEVICE, { $set: { a: 1 } });
    for (let times = 0; times < 2; times++) await capture(call, key, [event]);
    const body = { batch: [{ ...event, uuid: crypto.randomUUID() }] };
    faulty.plan(plan);
    const first = await call("POST", "/i/v1/analytics/events", { key, body });
    expect([200, 503]).toContain(first.status);
    faulty.plan(null);
    expect((await call("POST", "/i/v1/analytics/events", { key, body })).status).toBe(200);
    expect(await eventsOf(app, "ana")).toHaveLength(3);
    expect(await idOf(app, "ana")).toMatchObject({ eventCount: 3, properties: '{"a":1}' });
    expect(await claimsOf(app)).toEqual([`${DEVICE} < ana`]);
  },
);

describe(`isolates with memory, PROOF_SEED=${RANDOM_SEED}`, () => {
  it(
    "store and answer the same as isolates without memory",
    async () => {
      console.log(`known-people.test.ts: PROOF_SEED=${RANDOM_SEED}`);
      const random = createRandom(RANDOM_SEED);
      const pick = random.pick;
      const changes = () =>
        pick([
          {},
          { $set: { a: 1 } },
          { $set: { a: 2 }, $unset: ["b"] },
          { $set_once: { a: 3, b: 1 } },
          { $unset: ["a"] },
        ]);
      const ids = ["ana", "bob", DEVICE, OTHER];
      const someEvent = (): SentEvent => {
        const event = pick(["seen", "$identify", "$identify", "$create_alias"]);
        const link =
          event === "$identify" ? { $anon_distinct_id: pick(ids) } : event === "seen" ? {} : { alias: pick(ids) };
        return { event, distinct_id: pick(ids), properties: { ...link, ...changes() } };
      };
      const tell = soakPart("known people", HISTORIES, "histories", RANDOM_SEED);
      for (let history = 0; history < HISTORIES; history++) {
        const [remembering, plain] = [await world(), await world()];
        const isolates = [remembering.isolate(), remembering.isolate()];
        const usual = Array.from({ length: 3 }, someEvent);
        for (let step = 0; step < 20; step++) {
          if (random.chance(0.1)) {
            const user = pick(ids);
            for (const each of [remembering, plain]) await each.grant(user);
            continue;
          }
          const events = Array.from({ length: pick([1, 1, 1, 2]) }, () =>
            random.chance(0.7) ? pick(usual) : someEvent(),
          );
          const isSecret = random.chance(0.2);
          const keyOf = (each: typeof plain) => (isSecret ? each.secret : each.key);
          const answers = [
            await resultsOf(pick(isolates), keyOf(remembering), events),
            await resultsOf(plain.isolate(), keyOf(plain), events),
          ];
          expect(answers[0], `history ${history}, step ${step}`).toEqual(answers[1]);
        }
        const recordsOf = async (app: TestApp) =>
          (await idsOf(app)).map(({ firstSeenAtMs, lastSeenAtMs, claimedAtMs, ...row }) => row);
        expect(await recordsOf(remembering.app), `history ${history}`).toEqual(await recordsOf(plain.app));
        tell();
      }
    },
    timeoutOf(HISTORIES, 40_000),
  );
});
