import { env } from "cloudflare:workers";
import { afterAll, expect, it, vi } from "vitest";
import { scheduled } from "../../src/cron.ts";
import { randomId } from "../../src/lib/ids.ts";
import { HOUR_MS } from "../../src/lib/time.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { limitsWorld } from "../support/limits.ts";
import { times } from "../support/minor.ts";
import { createRandom } from "../support/random.ts";
import { FIXED_SEED, soakCount, timeoutOf } from "../support/soak.ts";
import { clockWorld } from "../support/test-clock.ts";
import { makeEndpoint, storedMessages } from "../support/webhooks.ts";
import { type Answer, bound, inTurn } from "../support/world.ts";

// The invariants include that each counter is the sum of the usage in its window.
afterAll(expectLedgerInvariants);
vi.setConfig({ testTimeout: timeoutOf(300, 500) });

const ROUNDS = soakCount(1, 0.5);
const passed = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200).length;
const codes = (answers: readonly Answer[]) =>
  new Set(answers.filter(({ status }) => status !== 200).map(({ body }) => body.error.code));

type World = Awaited<ReturnType<typeof limitsWorld>>;
const expectSound = async ({ callOk }: World) =>
  expect(await callOk("GET", "/credits/verify?userId=u")).toMatchObject({ isSound: true });

/** The sum of what a member's events used and open holds reserve, by SQL. */
async function countedOfMember({ app, limitIds }: World, memberId: string): Promise<number> {
  const sum = await env.DB.prepare(
    `SELECT (SELECT coalesce(sum(e.count_minor), 0) FROM usage_events AS e WHERE e.account_id = m.account_id
         AND e.member_number = m.member_number) + (
       SELECT coalesce(sum(n.value ->> 'minor'), 0) FROM reservations AS r, json_each(r.counted) AS n
       WHERE r.account_id = m.account_id AND r.member_number = m.member_number AND r.state = 'open'
         AND n.value ->> 'limitId' = ?3) AS minor
     FROM members AS m WHERE m.environment_id = ?1 AND m.member_id = ?2`,
  )
    .bind(app.environments.live.id, memberId, limitIds.at(-1))
    .first<{ minor: number }>();
  return sum?.minor ?? 0;
}

it("usage limits in three isolates let exactly ten units of fifty concurrent events, holds and lists pass, and send one message when ten is reached", async () => {
  const world = await limitsWorld({ limits: [{ amount: 10 }, { amount: 1_000, every: "month" }], pick: inTurn(3) });
  await makeEndpoint(world.app.environments.live, ["usage.limit_reached"], world.clock.ms);
  const list = (index: number) =>
    world.ask(
      "POST",
      "/usage/events",
      times(3, (place) => ({ eventId: `l${index}-${place}`, userId: "u", event: "chat" })),
    );
  const answers = await Promise.all(
    times(50, (index) => (index % 5 === 0 ? list(index) : index % 2 === 0 ? world.hold(1) : world.event(1))),
  );
  const results = answers.flatMap(({ body }): { error?: { code: string } }[] => body.results ?? [body]);
  expect(results.filter(({ error }) => error === undefined)).toHaveLength(10);
  expect(new Set(results.flatMap(({ error }) => error?.code ?? []))).toEqual(new Set(["usage_limit_reached"]));
  expect(await world.used()).toEqual([10, 10]);
  await expectSound(world);
  const messages = await storedMessages(world.app.environments.live);
  expect(messages.map(({ data }) => [data.limitId, data.used])).toEqual([[world.limitIds[0], 10]]);
});

it("usage limits in three isolates count exactly when events, holds, commits, returns, charges, partial usage and the cron race", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const random = createRandom(FIXED_SEED + round);
    const limits = [
      ...[{ amount: 30 }, { amount: 90, every: "hour" }, { unit: "tokens", amount: 7, every: "minute" }],
      { amount: 12, per: "member" },
    ];
    const members = ["mia", "ned", "u"];
    const member = () => (random.chance(0.7) ? { memberId: random.pick(members) } : {});
    const world = await limitsWorld({ limits, pick: inTurn(3) });
    const open: string[] = [];
    for (let index = 0; index < 8; index++) {
      open.push(await world.holdOk(random.integer(1, 3), { onExpiry: index < 4 ? "return" : "charge", ...member() }));
    }
    const charged = await world.holdOk(2, { onExpiry: "charge", expiresInSeconds: 1, memberId: "mia" });
    const returned = await world.holdOk(2, { expiresInSeconds: 1 });
    world.clock.advance(1_000);
    const cron = () => scheduled(bound(), { isolate: {}, now: world.clock.now, newId: randomId });
    const quantities = () => ({ count: random.integer(0, 3), ...(random.chance(0.3) && { tokens: 1 }) });
    const answers = await Promise.all([
      ...times(30, () =>
        world.event(1, { quantities: quantities(), onShortage: random.pick(["reject", "partial"]), ...member() }),
      ),
      ...times(12, () => world.hold(random.integer(1, 3), member())),
      ...open.flatMap((id) => [world.commit(id, random.integer(1, 4)), world.release(id), world.commit(id, 1)]),
      ...[charged, returned].map((id) => world.release(id)),
      ...times(3, async () => cron()),
    ]);
    const received = answers.filter((answer): answer is Answer => answer !== undefined);
    const rejections = new Set(["usage_limit_reached", "reservation_closed", "insufficient_credits"]);
    expect([...codes(received)].filter((code) => !rejections.has(code))).toEqual([]);
    expect(codes(received).has("usage_limit_reached")).toBe(true);
    expect(passed(received)).toBeGreaterThan(15);
    await expectSound(world);
    // The sum of counted usage, by SQL: events with their usage, and open holds.
    const sums = await env.DB.prepare(
      `SELECT (SELECT sum(count_minor) FROM usage_events WHERE environment_id = ?1) + (
           SELECT coalesce(sum(n.value ->> 'minor'), 0) FROM reservations AS r, json_each(r.counted) AS n
           WHERE r.state = 'open' AND n.value ->> 'limitId' = ?2
             AND r.account_id IN (SELECT id FROM accounts WHERE environment_id = ?1)) AS minor`,
    )
      .bind(world.app.environments.live.id, world.limitIds[0])
      .first<{ minor: number }>();
    const [ofDay, ofHour] = await world.used();
    expect([ofDay, ofHour]).toEqual(times(2, () => (sums?.minor ?? 0) / 1_000));
    for (const memberId of members) {
      const minor = await countedOfMember(world, memberId);
      const { limits: shown } = await world.callOk("GET", `/usage/limits?userId=u&memberId=${memberId}`);
      expect([memberId, shown.at(-1).used]).toEqual([memberId, minor / 1_000]);
    }
  }
});

it("usage limits in three isolates count every accepted event while a user's override is set, and apply that amount afterwards", async () => {
  const world = await limitsWorld({ limits: [{ amount: 1_000 }], pick: inTurn(3) });
  const path = `/usage/limits/${world.limitIds[0]}/amount`;
  const [events] = await Promise.all([
    Promise.all(times(25, () => world.event(1))),
    world.callOk("PUT", path, { userId: "u", amount: 20 }),
  ]);
  const [used = 0] = await world.used();
  expect(used).toBe(passed(events));
  expect(passed([await world.event(1)])).toBe(used < 20 ? 1 : 0);
  await expectSound(world);
});

it.each([
  ["minute", Date.UTC(2026, 0, 15, 12, 1)],
  ["hour", Date.UTC(2026, 0, 15, 13)],
  ["day", Date.UTC(2026, 0, 16)],
  ["week", Date.UTC(2026, 0, 19)],
  ["month", Date.UTC(2026, 1, 1)],
])(
  "the windows of usage limits of a %s end to the millisecond, and a hold counts only in the window in which it was made",
  async (every, endMs) => {
    const world = await limitsWorld({ limits: [{ every, amount: 5 }] });
    world.clock.ms = endMs - 1;
    const spanning = await world.holdOk(2, { expiresInSeconds: 3_600 });
    await world.use(3);
    const refused = await world.event(1);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(refused.body.error.details).toMatchObject({ used: 5, resetsAt: new Date(endMs).toISOString() });
    world.clock.ms = endMs;
    expect(await world.used()).toEqual([0]);
    await world.use(5);
    expect((await world.event(1)).status).toBe(429);
    // Its return subtracts nothing from the current window.
    await world.release(spanning);
    expect(await world.used()).toEqual([5]);
    await expectSound(world);
  },
);

it("the windows of usage limits begin empty after a test clock skips up to a hundred of them, whatever holds are open", async () => {
  const world = await clockWorld();
  await world.grant({});
  const limit = { mode: "test", name: "Hourly", unit: "count", amount: 2, every: "hour" };
  expect((await world.admin("POST", "/usage-limits", limit)).status).toBe(200);
  const event = (eventId: string, count: number) =>
    world.call("POST", "/api/v1/usage/events", {
      key: world.app.keys.sk_test,
      body: { eventId, userId: "u", event: "chat", quantities: { count }, onShortage: "reject" },
    });
  const used = async () => (await world.callOk("GET", "/usage/limits?userId=u")).limits[0].used;
  await world.move(1);
  await world.admin("POST", "/webhooks", { mode: "test", url: "https://receiver.example/hook" });
  for (const [index, leap] of [1, 100, 7, 1].entries()) {
    await world.callOk("POST", "/usage/reservations", {
      ...{ userId: "u", event: "chat", quantities: { count: 1, tokens: 1 }, expiresInSeconds: 86_400 },
    });
    expect(
      (
        await world.call("POST", "/api/v1/usage/events", {
          key: world.app.keys.sk_test,
          body: { eventId: `p${index}`, userId: "u", event: "chat", quantities: { count: 1, tokens: 1 } },
        })
      ).status,
    ).toBe(200);
    expect((await event(`r${index}`, 0.001)).body.error.code).toBe("usage_limit_reached");
    expect(await used()).toBe(2);
    const { now } = (await world.admin("GET", "/clock")).body;
    await world.move(Date.parse(now) + leap * HOUR_MS - Date.parse(world.at(0)));
    expect(await used()).toBe(0);
  }
});
