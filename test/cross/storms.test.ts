import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it, vi } from "vitest";
import { reserveInput } from "../../src/api/reservations/create-reservation.ts";
import { createReservation } from "../../src/books/usage/reserve.ts";
import { scheduled } from "../../src/cron.ts";
import { rejectionIn } from "../../src/errors.ts";
import { randomId } from "../../src/lib/ids.ts";
import type { Environment } from "../../src/runtime.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { times } from "../support/minor.ts";
import { createRandom } from "../support/random.ts";
import { FIXED_SEED, soakCount, soakPart, timeoutOf } from "../support/soak.ts";
import { makeEndpoint, storedMessages } from "../support/webhooks.ts";
import {
  type Answer,
  atRandom,
  bound,
  Clock,
  makeApp,
  makeClient,
  makeCtx,
  makeOpenAmountPack,
  makePack,
} from "../support/world.ts";

afterAll(expectLedgerInvariants);
// Each test sends hundreds of requests, and must also pass on a slow machine.
vi.setConfig({ testTimeout: timeoutOf(400, 500) });

const clock = new Clock();

/** Creates an application with a pack of cents, and functions that send requests with its key. */
async function enter(settings: Partial<Env> = {}) {
  const app = await makeApp();
  const call = makeClient(clock, settings, randomId, atRandom(3, createRandom(FIXED_SEED)));
  await makeOpenAmountPack(app.appId, "Wallet", "cents");
  const key = app.keys.sk_live;
  const post = (path: string, body: object): Promise<Answer> => call("POST", `/api/v1/${path}`, { key, body });
  return {
    app,
    call,
    post,
    grant: async (userId: string, quantity: number): Promise<string> => {
      const answer = await post("credits/grant", { userId, packId: "Wallet", quantity });
      expect(answer.status).toBe(200);
      return answer.body.balanceId;
    },
    remaining: async (userId: string): Promise<number[]> => {
      const listed = await call("GET", `/api/v1/credits?userId=${userId}&includeExpired=true`, { key });
      return listed.body.credits.map((balance: { remaining: number }) => balance.remaining);
    },
    /** The deltas of the user's whole ledger, by reason. */
    changes: async (userId: string): Promise<Record<string, number[]>> => {
      const entries = await env.DB.prepare(
        `SELECT reason, delta_minor AS delta FROM credit_ledger
         WHERE account_id = (SELECT id FROM accounts WHERE environment_id = ? AND user_id = ?) ORDER BY seq`,
      )
        .bind(app.environments.live.id, userId)
        .all<{ reason: string; delta: number }>();
      const deltas: Record<string, number[]> = {};
      for (const { reason, delta } of entries.results) deltas[reason] = [...(deltas[reason] ?? []), delta / 1_000_000];
      return deltas;
    },
  };
}

const all = <T>(count: number, make: (index: number) => Promise<T>): Promise<T[]> => Promise.all(times(count, make));
const statuses = (answers: readonly Answer[]): Record<number, number> => {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
};
const distinct = (answers: readonly Answer[]): number => new Set(answers.map(({ body }) => JSON.stringify(body))).size;

/** Expects exactly one message for each grant, event, revoke and refund of the environment, and no other messages of these types (H3). */
async function expectOneMessageEach(environment: Environment): Promise<number> {
  const messages = await storedMessages(environment);
  const of = (...types: string[]) => messages.filter(({ type }) => types.includes(type));
  const rows = async (sql: string) =>
    (await env.DB.prepare(sql).bind(environment.id).raw<[string, string | number]>())
      .map((row) => row.join(" "))
      .sort();
  const ofUser = "FROM accounts AS a CROSS JOIN credit_ledger AS l ON l.account_id = a.id WHERE a.environment_id = ?";
  expect(
    of("usage.recorded")
      .map(({ data }) => `${data.userId} ${data.eventId}`)
      .sort(),
  ).toEqual(
    await rows(
      "SELECT a.user_id, u.event_id FROM usage_events AS u JOIN accounts AS a ON a.id = u.account_id WHERE u.environment_id = ?",
    ),
  );
  // Each of these packs has one balance, so each message is about one entry.
  expect(
    of("credits.granted")
      .map(({ data }) => `${data.userId} ${data.seq}`)
      .sort(),
  ).toEqual(await rows(`SELECT a.user_id, l.seq ${ofUser} AND l.reason = 'grant'`));
  expect(
    of("credits.revoked", "credits.refunded")
      .map(({ data }) => `${data.userId} ${data.seq}`)
      .sort(),
  ).toEqual(
    await rows(`SELECT a.user_id, l.seq ${ofUser} AND l.reason = 'admin_adjust' AND l.reservation_number IS NULL`),
  );
  for (const { deliveries } of messages) expect(deliveries).toBe(1);
  return of("credits.depleted").length;
}

/** The types of messages for the endpoint. An endpoint gets `usage.recorded` only if it names it. */
const MESSAGE_TYPES = ["credits.*", "usage.recorded"];

it("concurrent grants create one set of rows when thirty are identical", async () => {
  const { app, post, changes } = await enter();
  await makePack(app.appId, "Two", [
    { amountMinor: 1_000_000, unit: "cents" },
    { amountMinor: 2_000_000, unit: "cents" },
  ]);
  const body = { userId: "u", packId: "Two", externalRef: "order-1" };
  const answers = await all(30, () => post("credits/grant", body));
  expect(statuses(answers)).toEqual({ 200: 30 });
  expect(distinct(answers)).toBe(1);
  expect(answers.filter(({ headers }) => headers.get("idempotent-replayed") === null)).toHaveLength(1);
  expect(await changes("u")).toEqual({ grant: [1, 2] });
});

it("concurrent grants take the last place of the test quota exactly once, when two race for it", async () => {
  for (let round = 0; round < 5; round++) {
    const { app, call } = await enter({ TEST_BALANCE_QUOTA: "3" });
    const key = app.keys.sk_test;
    const send = (userId: string): Promise<Answer> =>
      call("POST", "/api/v1/credits/grant", { key, body: { userId, packId: "Wallet", quantity: 1 } });
    expect(statuses([await send("a"), await send("b")])).toEqual({ 200: 2 });
    const answers = await all(2, (index) => send(`racer-${index}`));
    expect(statuses(answers)).toEqual({ 200: 1, 429: 1 });
    expect(answers.find(({ status }) => status === 429)?.body.error.code).toBe("test_quota_exceeded");
  }
});

describe("concurrent holds", () => {
  const ROUNDS_AT_ONCE = 5;
  const ROUNDS = ROUNDS_AT_ONCE * soakCount(1, 2);

  it("of 75 on 500 return 200 for 6 of 20, and 402 for the others", async () => {
    const { post, grant, remaining } = await enter();
    await grant("u", 500);
    const body = { userId: "u", event: "call", quantities: { cents: 75 } };
    const answers = await all(20, () => post("usage/reservations", body));
    expect(statuses(answers)).toEqual({ 200: 6, 402: 14 });
    expect(await remaining("u")).toEqual([50]);
  });

  it(`of 75 on 500 succeed for exactly 6 of 20, ${ROUNDS} times`, {
    timeout: timeoutOf(ROUNDS, 5_000),
  }, async () => {
    const { app, grant, changes } = await enter();
    // Calls the function of the route directly, because thousands of requests would take too long.
    const ctx = makeCtx(app.environments.live, clock);
    const input = reserveInput.parse({ userId: "u", event: "call", quantities: { cents: 75 } });
    const play = async (round: number): Promise<void> => {
      const userId = `u${round}`;
      await grant(userId, 500);
      const outcomes = await Promise.allSettled(times(20, () => createReservation(ctx, { ...input, userId })));
      const rejections = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
      expect(rejections.map((error) => rejectionIn(error)?.code)).toEqual(Array(14).fill("insufficient_credits"));
      expect(await changes(userId)).toEqual({ grant: [500], reservation_held: Array(6).fill(-75) });
    };
    const tell = soakPart("holds at once", ROUNDS, "users of 20 holds");
    for (let round = 0; round < ROUNDS; round += ROUNDS_AT_ONCE) {
      await all(ROUNDS_AT_ONCE, (index) => play(round + index));
      tell(ROUNDS_AT_ONCE);
    }
  });
});

it("concurrent events of one user with credits for 47 return 200 for 47 of 100, and 402 for the others", async () => {
  const { app, post, grant, remaining, changes } = await enter();
  await makeEndpoint(app.environments.live, MESSAGE_TYPES);
  // Each event costs 7 cents. Two balances share some events, and 3 cents remain.
  for (const quantity of [130, 160, 42]) await grant("u", quantity);
  const answers = await all(100, (index) =>
    post("usage/events", { eventId: `e${index}`, userId: "u", event: "call", quantities: { cents: 7 } }),
  );
  expect(statuses(answers)).toEqual({ 200: 47, 402: 53 });
  // No event was rejected while 7 cents were left: each rejection reports 3 remaining cents.
  const skipped = [expect.objectContaining({ unit: "cents", remaining: 3, reason: "exhausted" })];
  const usage = { quantities: { count: 1, cents: 7 }, meters: null, priceVersion: null };
  const details = { uncovered: { count: 0.572, cents: 4 }, skipped, ...usage };
  for (const { status, body } of answers) if (status === 402) expect(body.error.details).toEqual(details);
  expect(await remaining("u")).toEqual(expect.arrayContaining([3]));
  const debits = (await changes("u")).event_committed ?? [];
  expect(debits.reduce((sum, delta) => sum + delta, 0)).toBe(-47 * 7);
  expect(await expectOneMessageEach(app.environments.live)).toBe(0);
});

it("concurrent events debit once and return equal answers when thirty are identical", async () => {
  const { post, grant, changes } = await enter();
  await grant("u", 500);
  const body = { eventId: "e", userId: "u", event: "call", quantities: { cents: 75 } };
  const answers = await all(30, () => post("usage/events", body));
  expect(statuses(answers)).toEqual({ 200: 30 });
  expect(distinct(answers)).toBe(1);
  expect(answers.filter(({ headers }) => headers.get("idempotent-replayed") === null)).toHaveLength(1);
  expect(await changes("u")).toEqual({ grant: [500], event_committed: [-75] });
});

it("concurrent events that commit or release one hold settle it once", async () => {
  const { post, grant, remaining, changes } = await enter();
  for (let round = 0; round < 5; round++) {
    const userId = `u${round}`;
    const reservationId = randomId("res_");
    await grant(userId, 500);
    const hold = { reservationId, userId, event: "call", quantities: { cents: 75 } };
    expect((await post("usage/reservations", hold)).status).toBe(200);
    const settlement = `usage/reservations/${reservationId}`;
    const answers = await all(12, (index) =>
      index % 3 === 2
        ? post(`${settlement}/release`, {})
        : post(`${settlement}/commit`, { eventId: `${userId}-${index % 3}`, quantities: { cents: 60 } }),
    );
    const { event_committed: debits = [], reservation_released: returns } = await changes(userId);
    expect(returns).toEqual([75]);
    expect(statuses(answers)).toEqual({ 200: 4, 409: 8 });
    expect(await remaining(userId)).toEqual([debits.length === 0 ? 500 : 440]);
  }
});

it("concurrent refunds of a thirtieth each, among debits, succeed for 30 of 40, and take back or report as short exactly the issued amount", async () => {
  const { post, changes, remaining } = await enter();
  const body = { userId: "u", packId: "Wallet", quantity: 500, externalRef: "order" };
  expect((await post("credits/grant", body)).status).toBe(200);
  const share = { part: 1, of: 30 };
  const [refunds] = await Promise.all([
    all(40, (index) => post("credits/refund", { userId: "u", externalRef: "order", refundRef: `re-${index}`, share })),
    all(60, (index) =>
      post("usage/events", { eventId: `e${index}`, userId: "u", event: "call", quantities: { cents: 7 } }),
    ),
  ]);
  expect(statuses(refunds)).toEqual({ 200: 30, 400: 10 });
  const balances = refunds.flatMap(({ body }) => (body.balances ?? []) as { taken: number; short: number }[]);
  const sum = (amounts: readonly number[]) => Math.round(amounts.reduce((total, amount) => total + amount, 0) * 1e6);
  const { event_committed: debits = [], admin_adjust: clawbacks = [] } = await changes("u");
  expect(clawbacks).toHaveLength(30);
  // The last refund takes everything that remains.
  expect(sum(clawbacks)).toBe(-sum(balances.map(({ taken }) => taken)));
  expect(sum(clawbacks) + sum(debits)).toBe(-500_000_000);
  expect(sum(balances.map(({ taken, short }) => taken + short))).toBe(500_000_000);
  expect(await remaining("u")).toEqual([0]);
});

const event = (eventId: string, amount: number) => ({
  ...{ userId: "u", eventId, event: "call" },
  quantities: { count: 0, cents: amount },
});

it("concurrent lists and single debits spend all credits, and none is rejected while credits last", async () => {
  const { post, grant, remaining, changes } = await enter();
  await grant("u", 30);
  await grant("u", 20);
  const answers = await all(30, (index) => {
    if (index % 3 > 0) return post("usage/events", event(`single-${index}`, 0.5));
    return post(
      "usage/events",
      times(12, (place) => event(`list-${index}-${place}`, 0.5)),
    );
  });
  const results = answers.flatMap(({ body }): { error?: { code: string } }[] => body.results ?? [body]);
  const codes = results.map(({ error }) => error?.code ?? null);
  expect(codes.filter((code) => code === null)).toHaveLength(100);
  expect(codes.filter((code) => code === "insufficient_credits")).toHaveLength(40);
  expect(await remaining("u")).toEqual([0, 0]);
  expect((await changes("u")).event_committed).toHaveLength(100);
});

it("concurrent lists record each event once, and give equal answers, when a list is sent twenty times", async () => {
  const { post, grant, remaining } = await enter();
  await grant("u", 50);
  const list = times(20, (index) => event(`e${index}`, 1));
  const answers = await all(20, () => post("usage/events", list));
  const results = answers.flatMap(({ body }) => body.results as { eventId: string; isReplayed?: true }[]);
  for (const { eventId } of list) {
    const ofEvent = results.filter((result) => result.eventId === eventId);
    expect(ofEvent.filter(({ isReplayed }) => isReplayed !== true)).toHaveLength(1);
    expect(new Set(ofEvent.map((result) => JSON.stringify({ ...result, isReplayed: null }))).size).toBe(1);
    expect(ofEvent).toHaveLength(20);
  }
  expect(await remaining("u")).toEqual([30]);
});

it("concurrent charges charge each of thirty due reservations once while commits, releases, extensions and the cron race", async () => {
  const { app, call, post, grant, remaining, changes } = await enter();
  const userId = "u";
  await grant(userId, 500);
  const ids = times(30, () => randomId("res_"));
  for (const reservationId of ids) {
    const body = { reservationId, userId, event: "call", quantities: { cents: 7 }, onExpiry: "charge" };
    expect((await post("usage/reservations", { ...body, expiresInSeconds: 60 })).status).toBe(200);
  }
  clock.advance(60_000);
  const random = createRandom(FIXED_SEED);
  const run = () => scheduled(bound(), { isolate: {}, now: clock.now, newId: randomId });
  const acts = {
    commit: (id: string) => post(`usage/reservations/${id}/commit`, { eventId: randomId("e-"), quantities: {} }),
    release: (id: string) => post(`usage/reservations/${id}/release`, {}),
    extend: (id: string) => post(`usage/reservations/${id}/extend`, { expiresInSeconds: 90 }),
    event: () => post("usage/events", { eventId: randomId("e-"), userId, event: "call", quantities: { cents: 1 } }),
  };
  const answers = await all(60, async (index) => {
    if (index % 15 === 0) await run();
    const kind = random.pick(["commit", "release", "extend", "event"] as const);
    return { kind, answer: await acts[kind](random.pick(ids)) };
  });
  const events = answers.filter(({ kind }) => kind === "event");
  expect(statuses(events.map(({ answer }) => answer))).toEqual({ 200: events.length });
  for (const { kind, answer } of answers) {
    if (kind !== "event") expect(answer.body.error.code).toBe("reservation_closed");
  }
  expect(await remaining(userId)).toEqual([500 - 30 * 7 - events.length]);
  expect((await changes(userId)).reservation_released).toEqual(Array(30).fill(7));
  const { results } = await env.DB.prepare(
    "SELECT count(*) AS n FROM usage_events WHERE environment_id = ? AND event_id = reservation_id",
  )
    .bind(app.environments.live.id)
    .all();
  expect(results).toEqual([{ n: 30 }]);
  const listed = await call("GET", `/api/v1/usage/reservations?userId=${userId}&status=committed`, {
    key: app.keys.sk_live,
  });
  expect(listed.body.reservations).toHaveLength(30);
});

describe("concurrent commits of holds whose credits change meanwhile", () => {
  const HOLDS = 16;
  const HELD = 10;
  const ROUNDS = soakCount(1, 1);

  /** A user with holds of 10 cents each, all of one balance of 200 cents. `settle` sends requests for all holds at once. */
  async function held(expiresAt?: string) {
    const world = await enter();
    const { app, call, post } = world;
    const key = app.keys.sk_live;
    const paid = { userId: "u", packId: "Wallet", quantity: 200, externalRef: "order" };
    const granted = await post("credits/grant", { ...paid, ...(expiresAt && { expiresAt }) });
    expect(granted.status).toBe(200);
    const ids = times(HOLDS, () => randomId("res_"));
    const use = { userId: "u", event: "call", quantities: { cents: HELD } };
    const hold = (reservationId: string) =>
      post("usage/reservations", { ...use, reservationId, expiresInSeconds: 7_200 });
    expect(statuses(await Promise.all(ids.map(hold)))).toEqual({ 200: HOLDS });
    const event = () => post("usage/events", { ...use, eventId: randomId("e-") });
    return {
      ...{ ...world, ids, event, hold, key, balanceId: granted.body.balanceId as string },
      commit: (id: string, cents: number, more: object = {}) =>
        post(`usage/reservations/${id}/commit`, { eventId: `of ${id}`, quantities: { cents }, ...more }),
      cron: () => scheduled(bound(), { isolate: {}, now: clock.now, newId: randomId }),
      /** The amounts of a balance's entries by reason, added up. */
      sums: async (balanceId: string) => {
        const { body } = await call("GET", `/api/v1/credits/history?userId=u&balanceId=${balanceId}&limit=500`, {
          key,
        });
        const sums: Record<string, number> = {};
        for (const { reason, delta } of body.entries as { reason: string; delta: number }[]) {
          sums[reason] = (sums[reason] ?? 0) + delta;
        }
        return sums;
      },
    };
  }
  type Held = Awaited<ReturnType<typeof held>>;

  const inAnHour = () => new Date(clock.ms + 3_600_000).toISOString();
  const debitsOf = (answers: readonly Answer[]) =>
    answers.flatMap(({ body }) => body.debits as { balanceId: string; amount: number }[]);

  /** Commits three quarters of the holds twice each, and releases the others, while events, extensions and the cron run. */
  async function settleAll({ ids, commit, post, event, cron }: Held) {
    const [commits, others] = await Promise.all([
      all(2 * ids.length, async (index) => {
        const id = ids[index % ids.length] as string;
        return index % 4 === 3 ? [] : [await commit(id, HELD)];
      }),
      all(ids.length, async (index) => {
        if (index % 4 === 3) return post(`usage/reservations/${ids[index]}/release`, {});
        if (index % 4 === 0) await cron();
        return event();
      }),
    ]);
    return { commits: commits.flat(), events: others.filter((_, index) => index % 4 !== 3) };
  }

  it("are all paid by what was held though it has expired, and nothing else is", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const world = await held(inAnHour());
      clock.advance(3_600_000);
      const { commits, events } = await settleAll(world);
      expect(statuses(commits)).toEqual({ 200: 24 });
      for (const { balanceId, amount } of debitsOf(commits))
        expect([balanceId, amount]).toEqual([world.balanceId, HELD]);
      expect(statuses(events)).toEqual({ 402: 12 });
      expect(await world.sums(world.balanceId)).toEqual({
        ...{ grant: 200, reservation_held: -160, reservation_released: 160, event_committed: -120 },
      });
      expect(await world.remaining("u")).toEqual([80]);
    }
  });

  it("are all paid by what was held when the balance expires in the middle of them", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const world = await held(inAnHour());
      const before = all(HOLDS / 2, (index) => world.commit(world.ids[index] as string, HELD));
      clock.advance(3_600_000);
      const after = all(HOLDS / 2, (index) => world.commit(world.ids[index + HOLDS / 2] as string, HELD));
      const commits = [...(await before), ...(await after)];
      expect(statuses(commits)).toEqual({ 200: HOLDS });
      expect(debitsOf(commits)).toHaveLength(HOLDS);
      expect((await world.sums(world.balanceId)).event_committed).toBe(-HOLDS * HELD);
    }
  });

  it("are paid by the month's credits that they hold, and the next month's pay for the rest", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const world = await held();
      const { app, post, call, key } = world;
      const packId = await makePack(app.appId, "Monthly", [{ amountMinor: 100_000_000, unit: "cents", priority: 1 }]);
      const monthly = { userId: "v", packId, every: "month", recurringId: `rec_${app.environments.live.id}` };
      const { period } = (await post("credits/recurring", monthly)).body;
      const use = { userId: "v", event: "call", quantities: { cents: HELD } };
      clock.advance(Date.parse(period.to) - clock.ms - 1_000);
      const ids = times(10, () => randomId("res_"));
      // Held in the last second of the month.
      const holds = await Promise.all(
        ids.map((reservationId) => post("usage/reservations", { ...use, reservationId })),
      );
      expect(statuses(holds)).toEqual({ 200: 10 });
      const first = holds[0]?.body.holds[0].balanceId;
      clock.advance(1_000);
      // Half of them use half as much again.
      const [commits, events] = await Promise.all([
        all(10, (index) => world.commit(ids[index] as string, index % 2 === 0 ? HELD : 1.5 * HELD)),
        all(6, () => post("usage/events", { ...use, eventId: randomId("e-") })),
        ...times(4, () => world.cron()),
      ]);
      expect(statuses(commits)).toEqual({ 200: 10 });
      expect(statuses(events)).toEqual({ 200: 6 });
      const debits = debitsOf(commits);
      const ofFirst = debits.filter(({ balanceId }) => balanceId === first);
      expect(ofFirst).toHaveLength(10);
      for (const { amount } of ofFirst) expect(amount).toBe(HELD);
      const listed = await call("GET", "/api/v1/credits?userId=v", { key });
      expect(listed.body.credits.map(({ remaining }: { remaining: number }) => remaining)).toEqual([100 - 25 - 60]);
    }
  });

  it("are paid before a refund, which then takes what it is owed of the returns", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const world = await held();
      // 40 cents are free. Of the 160 that are held, the refunds are owed 110.
      const refund = (refundRef: string) =>
        world.post("credits/refund", {
          ...{ userId: "u", externalRef: "order", refundRef },
          share: { part: 3, of: 8 },
        });
      const [refunds, settled] = await Promise.all([all(2, (index) => refund(`re-${index}`)), settleAll(world)]);
      expect(statuses(refunds)).toEqual({ 200: 2 });
      expect(statuses(settled.commits)).toEqual({ 200: 24 });
      const {
        grant,
        event_committed: spent = 0,
        admin_adjust: taken = 0,
        ...returns
      } = await world.sums(world.balanceId);
      expect([grant, returns]).toEqual([200, { reservation_held: -160, reservation_released: 160 }]);
      // The commits were paid by what they held: 120. Events and refunds share the other 80.
      expect(spent).toBeLessThanOrEqual(-120);
      expect(taken).toBeGreaterThanOrEqual(-80);
      expect(await world.remaining("u")).toEqual([0]);
      expect(spent + taken).toBe(-200);
    }
  });

  it("are not paid by a balance that is revoked meanwhile: it keeps nothing, and each hold returns once", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const world = await held();
      const [revoked, settled] = await Promise.all([
        world.post("credits/revoke", { balanceId: world.balanceId, reason: "fraud" }),
        settleAll(world),
      ]);
      expect(revoked.status).toBe(200);
      expect(Object.keys(statuses(settled.commits)).every((status) => ["200", "402"].includes(status))).toBe(true);
      for (const id of world.ids) await world.post(`usage/reservations/${id}/release`, {});
      const { grant, reservation_released: returned, ...rest } = await world.sums(world.balanceId);
      expect([grant, returned]).toEqual([200, 160]);
      expect(Object.values(rest).reduce((sum, delta) => sum + delta, 0)).toBe(-360);
      expect(await world.remaining("u")).toEqual([0]);
    }
  });
});

/** The allowed rejections of each request. */
const ALLOWED_REJECTIONS: Readonly<Record<string, readonly string[]>> = {
  grant: [],
  revoke: [],
  // The shares of several refunds may exceed 1.
  refund: ["invalid_request"],
  reserve: ["insufficient_credits"],
  event: ["insufficient_credits"],
  list: ["insufficient_credits"],
  commit: ["insufficient_credits", "reservation_closed"],
  release: ["reservation_closed"],
};

const STORMS = soakCount(1, 2);

it("concurrent requests of all kinds keep every invariant, and are rejected only for an allowed reason", {
  timeout: timeoutOf(STORMS, 60_000),
}, async () => {
  const { app, post, grant, remaining, changes } = await enter();
  await makeEndpoint(app.environments.live, MESSAGE_TYPES);
  const random = createRandom(FIXED_SEED);
  const tell = soakPart("storms of everything", STORMS, "storms of 80 requests", FIXED_SEED);
  for (let round = 0; round < STORMS; round++) {
    const userId = `u${round}`;
    const balances = await all(4, () => grant(userId, random.integer(50, 200)));
    const paid = { userId, packId: "Wallet", externalRef: "order" };
    expect((await post("credits/grant", { ...paid, quantity: 100 })).status).toBe(200);
    const reservations = times(12, () => random.id("res_"));
    const hold = { userId, event: "call", quantities: { cents: 10 } };
    // Some requests are the first of a new member.
    const member = () => (random.chance(0.5) ? { memberId: `m${random.integer(1, 6)}` } : {});
    for (const reservationId of reservations) {
      expect((await post("usage/reservations", { ...hold, ...member(), reservationId })).status).toBe(200);
    }
    const requests = {
      grant: () => post("credits/grant", { userId, packId: "Wallet", quantity: random.integer(1, 100) }),
      revoke: () => post("credits/revoke", { balanceId: random.pick(balances.slice(0, 2)) }),
      refund: () =>
        post("credits/refund", {
          ...{ userId, externalRef: "order", refundRef: random.id("re-") },
          share: { part: random.integer(1, 3), of: 10 },
        }),
      reserve: () =>
        post("usage/reservations", { ...hold, ...member(), quantities: { cents: random.integer(1, 150) } }),
      event: () =>
        post("usage/events", {
          ...{ ...hold, ...member(), eventId: random.id("e-") },
          quantities: { cents: random.integer(1, 90) },
        }),
      list: () =>
        post(
          "usage/events",
          times(4, () => ({
            ...{ ...hold, ...member(), eventId: random.id("e-") },
            quantities: { cents: random.integer(1, 30) },
          })),
        ),
      commit: () =>
        post(`usage/reservations/${random.pick(reservations)}/commit`, {
          eventId: random.id("e-"),
          quantities: { cents: random.integer(1, 30) },
        }),
      release: () => post(`usage/reservations/${random.pick(reservations)}/release`, {}),
    };
    const weights = { grant: 3, revoke: 1, refund: 2, reserve: 4, event: 4, list: 3, commit: 4, release: 2 };
    const answers = await all(80, async () => {
      const kind = random.weighted(weights);
      return { kind, answer: await requests[kind]() };
    });
    for (const { kind, answer } of answers) {
      for (const { error } of answer.body.results ?? [answer.body]) {
        const allowed = [undefined, ...(ALLOWED_REJECTIONS[kind] ?? [])];
        expect(allowed, `${kind}: ${JSON.stringify(answer.body)}`).toContain(error?.code);
      }
    }
    const deltas = Object.values(await changes(userId)).flat();
    const left = (await remaining(userId)).reduce((sum, amount) => sum + amount, 0);
    expect(deltas.reduce((sum, delta) => sum + delta, 0)).toBe(left);
    await expectOneMessageEach(app.environments.live);
    // This check reads the whole database, also at the end of the file.
    if (round % 20 === 19) await expectLedgerInvariants();
    tell();
  }
});
