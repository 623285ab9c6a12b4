import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { holdsPart } from "../../../../src/books/usage/expire.ts";
import { scheduled } from "../../../../src/cron.ts";
import { randomId } from "../../../../src/lib/ids.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { limitsWorld } from "../../../support/limits.ts";
import { makeEndpoint } from "../../../support/webhooks.ts";
import { bound, inTurn } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

it("events above the amount are rejected with the limit's details, and nothing is written", async () => {
  const { app, use, event, used, limitIds, callOk } = await limitsWorld();
  await use(10);
  const refused = await event(0.5, { eventId: "refused" });
  expect(refused).toMatchObject({
    status: 429,
    body: {
      error: {
        code: "usage_limit_reached",
        details: {
          ...{ limitId: limitIds[0], name: "Limit 0", unit: "count", amount: 10, used: 10, asked: 0.5 },
          resetsAt: "2026-01-16T00:00:00.000Z",
        },
      },
    },
  });
  expect(refused.headers.get("retry-after")).toBe("43200");
  expect(await used()).toEqual([10]);
  const ofRejected = "SELECT 1 FROM usage_events WHERE environment_id = ? AND event_id = 'refused'";
  expect(await env.DB.prepare(ofRejected).bind(app.environments.live.id).first()).toBeNull();
  expect((await callOk("GET", "/credits/verify?userId=u")).isSound).toBe(true);
});

it("events count once, and a repeat is a replay or a conflict even above the amount", async () => {
  const { use, event, used } = await limitsWorld();
  await use(10, { eventId: "once" });
  expect((await event(10, { eventId: "once" })).headers.get("idempotent-replayed")).toBe("true");
  expect(await used()).toEqual([10]);
  expect((await event(1, { eventId: "once" })).status).toBe(409);
});

it("events are rejected by a limit before a shortage", async () => {
  const { event } = await limitsWorld({ items: [{ amountMinor: 1_000, unit: "count" }] });
  expect((await event(11)).body.error.code).toBe("usage_limit_reached");
  expect((await event(5)).body.error.code).toBe("insufficient_credits");
});

it("events have a count of 1 by default, and count only in the limit's unit", async () => {
  const { use, used } = await limitsWorld({
    limits: [{}, { unit: "tokens", amount: 5 }],
    items: [{ amountMinor: 1_000_000, unit: "tokens" }],
  });
  await use(0, { quantities: { tokens: 5 } });
  expect(await used()).toEqual([1, 5]);
});

it("events that are free count 1 unless they say 0, so a limit also bounds free calls", async () => {
  const { event, used } = await limitsWorld({ limits: [{ amount: 2 }, { unit: "cents", amount: 1 }] });
  const free = { quantities: { cents: 0 } };
  for (let times = 0; times < 2; times++) expect((await event(0, free)).status).toBe(200);
  expect((await event(0, free)).body.error.code).toBe("usage_limit_reached");
  expect((await event(0, { quantities: { count: 0, cents: 0 } })).status).toBe(200);
  expect(await used()).toEqual([2, 0]);
});

it("events that add nothing to a limit are not rejected by it", async () => {
  const { use, used } = await limitsWorld({
    limits: [
      { unit: "tokens", amount: 0 },
      { matches: [{ event: "image" }], amount: 0 },
    ],
  });
  await use(3);
  expect(await used()).toEqual([0, 0]);
});

it("events count in the limits whose rules match their event and model", async () => {
  const limits = [{ matches: [{ event: "chat.*" }] }, { matches: [{ event: "*", model: "large-*" }] }, { matches: [] }];
  const { use, used } = await limitsWorld({ limits });
  await use(1, { event: "chat.done" });
  await use(2, { event: "image", model: "large-2" });
  await use(3, { event: "chat.done", model: "small" });
  expect(await used()).toEqual([4, 2, 6]);
});

it("events that are partial may exceed the amount, and count with their uncovered part", async () => {
  const { use, event, used } = await limitsWorld({ items: [{ amountMinor: 5_000, unit: "count" }] });
  expect((await use(12, { onShortage: "partial" })).uncovered).toEqual({ count: 7 });
  expect(await used()).toEqual([12]);
  expect((await event(1)).body.error.details).toMatchObject({ used: 12, asked: 1 });
});

it("events rejected by several limits report the one that resets last", async () => {
  const { event } = await limitsWorld({
    limits: [
      { every: "hour", amount: 1 },
      { every: "month", amount: 2 },
      { every: "day", amount: 1 },
    ],
  });
  expect((await event(3)).body.error.details).toMatchObject({
    name: "Limit 1",
    resetsAt: "2026-02-01T00:00:00.000Z",
  });
  expect((await event(2)).body.error.details).toMatchObject({ name: "Limit 2" });
});

it("events count by the time of recording, not of occurrence", async () => {
  const { use, used, clock } = await limitsWorld();
  await use(3, { occurredAt: "2026-01-10T00:00:00Z" });
  expect(await used()).toEqual([3]);
  clock.ms = Date.UTC(2026, 0, 15, 23, 59, 59, 999);
  await use(1);
  expect(await used()).toEqual([4]);
  clock.ms += 1;
  expect(await used()).toEqual([0]);
  await use(10, { occurredAt: "2026-01-15T00:00:00Z" });
  expect(await used()).toEqual([10]);
});

it("events of a list are judged one after another, in one trip if warm", async () => {
  const { d1, spent } = countingD1(env.DB);
  const { call, key, used, use } = await limitsWorld({ bindings: { DB: d1 } });
  await use(1);
  const list = (counts: readonly number[], tag: string) =>
    call("POST", "/api/v1/usage/events/batch", {
      key,
      body: counts.map((count, n) => ({ eventId: `${tag}${n}`, userId: "u", event: "chat", quantities: { count } })),
    });
  spent();
  expect((await list([2, 3], "a")).status).toBe(200);
  expect(spent().roundTrips).toBe(1);
  const { body } = await list([3, 2, 1, 1], "b");
  expect(body.results.map((result: { error?: { code: string } }) => result.error?.code ?? "ok")).toEqual([
    ...["ok", "usage_limit_reached", "ok", "usage_limit_reached"],
  ]);
  expect(await used()).toEqual([10]);
});

it("events are accepted exactly ten times if forty race in three isolates and ten are left", async () => {
  const { event, used, use } = await limitsWorld({ limits: [{ amount: 13 }], pick: inTurn(3) });
  for (const _ of [1, 2, 3]) await use(1);
  const answers = await Promise.all(Array.from({ length: 40 }, () => event(1)));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(30);
  expect(await used()).toEqual([13]);
});

it("holds count while open, are replaced by their commit, and are subtracted on release", async () => {
  const { holdOk, hold, commit, release, used } = await limitsWorld();
  const first = await holdOk(6);
  expect(await used()).toEqual([6]);
  expect((await hold(5)).status).toBe(429);
  expect((await commit(first, 8)).status).toBe(200);
  expect(await used()).toEqual([8]);
  const second = await holdOk(2);
  expect(await used()).toEqual([10]);
  await release(second);
  await release(second);
  expect(await used()).toEqual([8]);
});

it("holds are replaced by their commit in the limits that its model matches, and end in those of the reservation's", async () => {
  const limits = ["small", "large"].map((model) => ({ matches: [{ model }] }));
  const { holdOk, commit, used } = await limitsWorld({ limits });
  const reservation = await holdOk(4, { model: "small" });
  expect(await used()).toEqual([4, 0]);
  expect((await commit(reservation, 3, { model: "large" })).status).toBe(200);
  expect(await used()).toEqual([0, 3]);
});

it("holds can be committed even above the amount", async () => {
  const { holdOk, commit, used, use } = await limitsWorld();
  const reservation = await holdOk(1);
  await use(9);
  expect((await commit(reservation, 20)).status).toBe(200);
  expect(await used()).toEqual([29]);
});

it("holds that are committed in a later window count there, and a release there subtracts nothing", async () => {
  const { holdOk, commit, release, used, use, clock } = await limitsWorld();
  const [committed, released] = [
    await holdOk(4, { expiresInSeconds: 86_400 }),
    await holdOk(3, { expiresInSeconds: 86_400 }),
  ];
  clock.ms = Date.UTC(2026, 0, 16);
  await use(1);
  expect((await commit(committed, 2)).status).toBe(200);
  expect(await used()).toEqual([3]);
  await release(released);
  expect(await used()).toEqual([3]);
});

it("holds count until they are settled even if they are due, but are judged as returned", async () => {
  const { holdOk, used, use, callOk, clock } = await limitsWorld();
  await holdOk(10);
  clock.advance(60_000);
  expect(await used()).toEqual([10]);
  expect(
    (await callOk("POST", "/credits/plan", { userId: "u", event: "chat", quantities: { count: 10 } })).limits,
  ).toEqual([]);
  await use(10);
  expect(await used()).toEqual([10]);
});

it("holds that expired are subtracted even if the next write is rejected", async () => {
  const { holdOk, used, event, clock } = await limitsWorld();
  await holdOk(4);
  clock.advance(60_000);
  expect((await event(11)).body.error.details).toMatchObject({ used: 0, asked: 11 });
  expect(await used()).toEqual([0]);
});

it("holds that are committed after they expired count as an ordinary event", async () => {
  const { holdOk, used, use, commit, clock } = await limitsWorld();
  const reservation = await holdOk(4);
  clock.advance(60_000);
  await use(7);
  expect((await commit(reservation, 5)).status).toBe(200);
  expect(await used()).toEqual([12]);
});

it("holds that are charged keep their count in their window, and count nothing more", async () => {
  const { holdOk, used, use, clock, callOk } = await limitsWorld();
  await holdOk(4, { onExpiry: "charge" });
  clock.advance(60_000);
  await use(1);
  expect(await used()).toEqual([5]);
  clock.ms = Date.UTC(2026, 0, 15, 23, 59, 59);
  await holdOk(3, { onExpiry: "charge" });
  clock.advance(61_000);
  await use(2);
  expect(await used()).toEqual([2]);
  expect((await callOk("GET", "/credits/verify?userId=u")).isSound).toBe(true);
});

it("holds count the same if the cron settles them", async () => {
  const { holdOk, used, clock } = await limitsWorld();
  await holdOk(4, { onExpiry: "charge" });
  await holdOk(3);
  clock.advance(60_000);
  await scheduled(bound(), { isolate: {}, now: clock.now, newId: randomId }, [holdsPart]);
  expect(await used()).toEqual([4]);
});

it("a user's override takes effect at once, and null removes the limit for the user", async () => {
  const { use, event, checkpoints, callOk, limitIds, used } = await limitsWorld();
  const path = `/usage/limits/${limitIds[0]}/amount`;
  await use(8);
  expect(await callOk("PUT", path, { userId: "u", amount: 5 })).toMatchObject({ amount: 5, used: 8, remaining: 0 });
  expect((await event(1)).status).toBe(429);
  expect(await callOk("PUT", path, { userId: "u", amount: null })).toMatchObject({
    amount: null,
    used: 8,
    remaining: null,
  });
  await use(100);
  expect(await checkpoints()).toMatchObject([{ amount: null, used: 108, remaining: null }]);
  expect(await callOk("DELETE", `${path}?userId=u`)).toMatchObject({ amount: 10, used: 108, remaining: 0 });
  expect(await callOk("DELETE", `${path}?userId=u`)).toMatchObject({ amount: 10 });
  expect((await event(1)).status).toBe(429);
  expect(await used()).toEqual([108]);
});

it("a user's override is answered with the usage of due holds that are charged, and without that of those that are returned", async () => {
  const { clock, holdOk, used, callOk, limitIds } = await limitsWorld({ limits: [{}, {}] });
  await holdOk(4, { onExpiry: "charge" });
  await holdOk(2);
  clock.advance(61_000);
  const body = { userId: "u", amount: 9 };
  const answers = [];
  for (const limitId of limitIds) answers.push(await callOk("PUT", `/usage/limits/${limitId}/amount`, body));
  expect(answers).toMatchObject([{ used: 4 }, { used: 4 }]);
  expect(await used()).toEqual([4, 4]);
});

it("a user's override makes an account for an unknown user when it is set, but not when it is removed", async () => {
  const { app, callOk, limitIds } = await limitsWorld();
  const path = `/usage/limits/${limitIds[0]}/amount`;
  const accountOf = (userId: string) =>
    env.DB.prepare("SELECT 1 FROM accounts WHERE environment_id = ? AND user_id = ?")
      .bind(app.environments.live.id, userId)
      .first();
  await callOk("DELETE", `${path}?userId=nobody`);
  expect(await accountOf("nobody")).toBeNull();
  await callOk("PUT", path, { userId: "somebody new", amount: 3 });
  expect(await accountOf("somebody new")).not.toBeNull();
});

const messagesOf = async (environmentId: number) => {
  const { results } = await env.DB.prepare(
    "SELECT data FROM webhook_messages WHERE environment_id = ? AND type = 'usage.limit_reached' ORDER BY id",
  )
    .bind(environmentId)
    .all<{ data: string }>();
  return results.map(({ data }) => JSON.parse(data));
};

it("usage.limit_reached is sent once a window when a user reaches the amount", async () => {
  const world = await limitsWorld();
  await makeEndpoint(world.app.environments.live, ["*"], world.clock.ms);
  const all = () => messagesOf(world.app.environments.live.id);
  await world.use(9);
  expect(await all()).toEqual([]);
  await world.use(1);
  const { limitIds } = world;
  expect(await all()).toEqual([
    {
      ...{ userId: "u", memberId: null, limitId: limitIds[0], name: "Limit 0", unit: "count", amount: 10, used: 10 },
      ...{ resetsAt: "2026-01-16T00:00:00.000Z", seq: 3 },
    },
  ]);
  await world.use(1, { onShortage: "partial" });
  await world.callOk("PUT", `/usage/limits/${limitIds[0]}/amount`, { userId: "u", amount: 12 });
  await world.use(1);
  expect(await all()).toHaveLength(1);
  world.clock.ms = Date.UTC(2026, 0, 16);
  await world.use(12);
  expect(await all()).toMatchObject([{}, { amount: 12, used: 12, seq: 6 }]);
});

it("usage.limit_reached is sent once for a list, for a hold, and for a commit that does not exceed its hold", async () => {
  const world = await limitsWorld({ limits: [{ amount: 5 }, { amount: 5, every: "month" }] });
  await makeEndpoint(world.app.environments.live, null, world.clock.ms);
  const used = async () => (await messagesOf(world.app.environments.live.id)).map((data) => data.used);
  const event = (eventId: string) => ({
    eventId,
    userId: "v",
    event: "chat",
    quantities: { count: 3 },
    onShortage: "partial",
  });
  await world.callOk("POST", "/usage/events/batch", [event("a"), event("b"), event("c")]);
  expect(await used()).toEqual([9, 9]);
  expect((await messagesOf(world.app.environments.live.id)).map(({ seq }) => seq)).toEqual([0, 0]);
  const [limitId] = world.limitIds;
  const reservation = await world.holdOk(4);
  await world.callOk("PUT", `/usage/limits/${limitId}/amount`, { userId: "u", amount: 2 });
  expect(await used()).toHaveLength(2);
  expect((await world.commit(reservation, 3)).status).toBe(200);
  expect((await used()).toSorted()).toEqual([3, 9, 9]);
});

it("a warm write takes one trip, writes a row more for each limit that counts it, and costs no more if none does", async () => {
  const { d1, spent } = countingD1(env.DB);
  const warm = async (limits: readonly object[]) => {
    const world = await limitsWorld({ limits, bindings: { DB: d1 } });
    await world.use(1);
    await world.use(1);
    spent();
    await world.use(1);
    const event = spent();
    const reservation = await world.holdOk(1);
    const hold = spent();
    await world.commit(reservation, 1);
    return { event, hold, commit: spent() };
  };
  const without = await warm([]);
  const two = await warm([{ amount: 100 }, { amount: 100, every: "month" }]);
  const none = await warm([{ unit: "seconds" }]);
  expect(none).toEqual(without);
  for (const name of ["event", "hold", "commit"] as const) {
    expect(two[name].roundTrips).toBe(1);
    expect(two[name].rowsWritten - without[name].rowsWritten, name).toBeLessThanOrEqual(name === "commit" ? 4 : 2);
    expect(two[name].rowsRead - without[name].rowsRead, name).toBeLessThanOrEqual(name === "commit" ? 12 : 4);
  }
});
