import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { countingD1 } from "../../../support/counting-d1.ts";
import { farD1 } from "../../../support/far-d1.ts";
import { faultyD1 } from "../../../support/faulty-d1.ts";
import { hookedD1 } from "../../../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { times } from "../../../support/minor.ts";
import { EVENTS } from "../../../support/paths.ts";
import { createRandom, type Random } from "../../../support/random.ts";
import { liveBalancesSql } from "../../../support/seed.ts";
import { seedBalancesOfMany } from "../../../support/seed-rows.ts";
import { soakCount, timeoutOf } from "../../../support/soak.ts";
import { centsOnly, wallet } from "../../../support/spender.ts";
import { type Answer, Clock, makeApp, makeClient, makePack, type TestItem } from "../../../support/world.ts";
import { wrappedD1 } from "../../../support/wrapped-d1.ts";

afterAll(expectLedgerInvariants);

const chatWallet = { amountMinor: 4_000_000, unit: "cents", matches: [{ event: "chat.*" }], priority: 1 } as const;

interface Enter {
  readonly users: readonly string[];
  readonly items?: readonly TestItem[];
  readonly d1?: D1Database;
}

/** An application whose users have credits, granted by another isolate than the one that is tested. */
async function enter({ users, items = [wallet], d1 = env.DB }: Enter) {
  const clock = new Clock();
  const app = await makeApp();
  const packId = await makePack(app.appId, "Pack", items);
  const key = app.keys.sk_live;
  const elsewhere = makeClient(clock);
  for (const userId of users) {
    const granted = await elsewhere("POST", "/api/v1/credits/grant", { key, body: { userId, packId } });
    expect(granted.status).toBe(200);
  }
  const isolate = () => {
    const call = makeClient(clock, { DB: d1 });
    return (body: unknown): Promise<Answer> => call("POST", EVENTS, { key, body });
  };
  const post = (path: string, body: object) => elsewhere("POST", `/api/v1/${path}`, { key, body });
  const remaining = async (userId: string): Promise<number> => {
    const { body } = await elsewhere("GET", `/api/v1/credits?userId=${userId}&includeExpired=true`, { key });
    return body.credits.reduce((sum: number, credit: { remaining: number }) => sum + credit.remaining, 0);
  };
  return { app, clock, packId, send: isolate(), isolate, post, remaining };
}

const event = (userId: string, eventId: string, amount: number, more: object = {}) => ({
  ...{ userId, eventId, event: "chat.completed", ...centsOnly(amount) },
  ...more,
});
const codesOf = ({ body }: Answer): (string | null)[] =>
  body.results.map((result: { error?: { code: string } }) => result.error?.code ?? null);

it("a list of 100 events of one user takes 2 trips if nothing is known, 1 right after a write, and 1 for a repeat", async () => {
  const { d1, spent } = farD1(env.DB, { primaryMs: 0, replicaMs: 0 });
  const { send, isolate, remaining } = await enter({ users: ["u"], d1 });
  const list = (tag: string) => times(100, (index) => event("u", `${tag}${index}`, 0.01));
  expect(codesOf(await send(list("a")))).toEqual(times(100, () => null));
  expect(spent()).toMatchObject({ inSequence: 2, primary: 2 });
  expect(codesOf(await send(list("b")))).toEqual(times(100, () => null));
  expect(spent()).toMatchObject({ inSequence: 1, primary: 1 });
  await isolate()(list("b"));
  expect(spent()).toMatchObject({ inSequence: 1, primary: 1 });
  expect(await remaining("u")).toBe(8);
});

it("a list of 100 events of 100 users takes at most 18 trips in sequence, 101 in all, and 1 for a repeat", async () => {
  const { d1, spent } = farD1(env.DB, { primaryMs: 0, replicaMs: 0 });
  // Half of the users are new.
  const users = times(100, (index) => `u${index}`);
  const { app, send } = await enter({ users: [], d1 });
  await seedBalancesOfMany(app.environments.live, new Map(users.slice(50).map((userId) => [userId, 1])));
  const list = users.map((userId) => event(userId, `of ${userId}`, 0.01, { onShortage: "partial" }));
  expect(codesOf(await send(list))).toEqual(times(100, () => null));
  const { inSequence, primary } = spent();
  expect(inSequence).toBeLessThanOrEqual(18);
  expect(primary).toBe(101);
  await send(list);
  expect(spent()).toMatchObject({ inSequence: 1, primary: 1 });
});

it("a list of 100 events sends at most six batches at a time, and fewer than 1,000 statements", async () => {
  let [now, most, statements] = [0, 0, 0];
  const d1 = hookedD1(env.DB, async (_, count) => {
    statements += count;
    most = Math.max(most, ++now);
    await scheduler.wait(5);
    now--;
  });
  const users = times(100, (index) => `u${index}`);
  const { app, send } = await enter({ users: [], d1 });
  await seedBalancesOfMany(app.environments.live, new Map(users.map((userId) => [userId, 1])));
  await send(users.map((userId) => event(userId, `of ${userId}`, 0.01)));
  expect(most).toBe(6);
  expect(statements).toBeLessThan(600);
});

it("a list of 100 events costs the rows of its events: 2p + 3 written each, and few read in addition to the user's balances", async () => {
  const { d1, spent } = countingD1(env.DB);
  const { send, isolate } = await enter({ users: ["u"], items: times(100, () => wallet), d1 });
  await send([event("u", "first", 1)]);
  const costOfOne = spent();
  await isolate()(times(100, (index) => event("u", `e${index}`, 1)));
  const costOfAll = spent();
  expect(costOfAll.rowsWritten).toBeLessThanOrEqual(100 * 5 + 10);
  // The balances that one event reads are read once for the whole list.
  expect(costOfAll.rowsRead).toBeLessThanOrEqual(2 * 100 + 100 * 30);
  expect(costOfOne.rowsRead).toBeGreaterThan(100);
});

it("events of one list see the balances after the earlier events, and a rejected one does not affect the others", async () => {
  const { send, remaining } = await enter({ users: ["u"], items: [chatWallet, wallet] });
  const answer = await send([
    event("u", "a", 3),
    event("u", "b", 12),
    event("u", "c", 3, { onShortage: "partial" }),
    event("u", "d", 9, { onShortage: "partial" }),
    event("u", "e", 0.5),
  ]);
  expect(codesOf(answer)).toEqual([null, "insufficient_credits", null, null, "insufficient_credits"]);
  const [a, b, c, d] = answer.body.results;
  expect(a.debits).toMatchObject([{ amount: 3, remaining: 1 }]);
  expect(b.error.details).toMatchObject({ uncovered: { cents: 1 } });
  expect(c.debits).toMatchObject([
    { amount: 1, remaining: 0 },
    { amount: 2, remaining: 8 },
  ]);
  expect(d).toMatchObject({ debits: [{ amount: 8, remaining: 0 }], uncovered: { cents: 1 } });
  expect(await remaining("u")).toBe(0);
});

it("events of one list with the same id are replays if the body is the same, else conflicts, and a rejected event leaves its id free", async () => {
  const { send, remaining } = await enter({ users: ["u", "v"] });
  const answer = await send([
    event("u", "a", 1),
    event("u", "a", 1),
    event("u", "a", 2),
    event("v", "a", 1),
    event("u", "b", 100),
    event("u", "b", 1),
    event("v", "b", 1),
    event("v", "c", 100),
    event("u", "c", 2),
  ]);
  expect(codesOf(answer)).toEqual([
    ...[null, null, "idempotency_conflict", "idempotency_conflict"],
    ...["insufficient_credits", null, "idempotency_conflict"],
    ...["insufficient_credits", null],
  ]);
  expect(answer.body.results[1]).toEqual({ ...answer.body.results[0], isReplayed: true });
  expect([await remaining("u"), await remaining("v")]).toEqual([6, 10]);
});

it("events of one list are not stored under an id whose earlier event could not be recorded, and are recorded in order on a repeat", async () => {
  let isBusy = true;
  // D1 is overloaded for the first batch that records the event `a`.
  const d1 = wrappedD1(env.DB, async (sendOn, statements) => {
    const isA = (value: unknown) => typeof value === "string" && value.startsWith('["a"');
    const records = statements.some(({ text, values }) => text.includes('INTO "usage_events"') && values.some(isA));
    if (!records || !isBusy) return sendOn(statements);
    isBusy = false;
    throw new Error("D1_ERROR: D1 DB is overloaded. Requests queued for too long.");
  });
  const { send, remaining } = await enter({ users: ["u", "v", "w"], d1 });
  const list = [
    ...[event("u", "a", 1), event("v", "a", 2), event("v", "b", 3), event("w", "c", 1)],
    ...[event("w", "a", 4), event("w", "b", 5)],
  ];
  const busy = "temporarily_unavailable";
  const first = await send(list);
  expect(codesOf(first)).toEqual([busy, busy, null, null, busy, "idempotency_conflict"]);
  expect(first.body.results[1]).toMatchObject({ eventId: "a" });
  const conflict = "idempotency_conflict";
  expect(codesOf(await send(list))).toEqual([null, conflict, null, null, conflict, conflict]);
  expect(await Promise.all(["u", "v", "w"].map(remaining))).toEqual([9, 7, 9]);
});

it("events of one list are answered by the stored result if their batch's response is lost, even an event that it rejected", async () => {
  const faulty = faultyD1(env.DB);
  const { send, remaining } = await enter({ users: ["u"], d1: faulty.d1 });
  faulty.plan({ fault: "after", at: 2 });
  const answer = await send([event("u", "a", 3), event("u", "b", 8), event("u", "b", 1), event("u", "a", 3)]);
  expect(codesOf(answer)).toEqual([null, "insufficient_credits", null, null]);
  expect(answer.body.results[1].error.details).toMatchObject({ uncovered: { cents: 1 } });
  expect(await remaining("u")).toBe(6);
});

it("events of one list with the same id are decided in the order of the list, even if they are of different users", async () => {
  const { send, remaining } = await enter({ users: ["u", "v"] });
  const answer = await send([event("u", "a", 11), event("v", "a", 1), event("u", "a", 11), event("u", "b", 1)]);
  expect(codesOf(answer)).toEqual(["insufficient_credits", null, "idempotency_conflict", null]);
  expect([await remaining("u"), await remaining("v")]).toEqual([9, 9]);
});

it("events of one list return a due hold once, whether they are recorded or rejected", async () => {
  for (const amount of [1, 100]) {
    const { send, post, clock, remaining } = await enter({ users: ["u", "v"] });
    const hold = { event: "chat.x", ...centsOnly(9), expiresInSeconds: 1 };
    for (const userId of ["u", "v"]) {
      expect((await post("usage/reservations", { ...hold, userId })).status).toBe(200);
    }
    clock.advance(1_000);
    const spent = amount === 1 ? 2 : 0;
    const list = ["u", "v"].flatMap((userId) => [
      event(userId, `${userId}a`, amount),
      event(userId, `${userId}b`, amount),
    ]);
    const code = amount === 1 ? null : "insufficient_credits";
    expect(codesOf(await send(list))).toEqual([code, code, code, code]);
    expect([await remaining("u"), await remaining("v")]).toEqual([10 - spent, 10 - spent]);
  }
});

it("events of one list are paid even if one user has more balances than one read returns for the list", async () => {
  const { app, send } = await enter({ users: ["poor", "rich", "later"] });
  const { id: environmentId } = app.environments.live;
  for (const sql of liveBalancesSql({ environmentId, userId: "rich" }, 5_000)) await env.DB.prepare(sql).run();
  const { body } = await send(["poor", "rich", "later"].map((userId) => event(userId, `of ${userId}`, 1)));
  const paid = { debits: [{ amount: 1, remaining: 9 }], uncovered: null };
  expect(body.results).toMatchObject([paid, paid, paid]);
});

const SEEDS = soakCount(2, 40);
const users = ["u", "v", "w"];

function someList(random: Random, ids: readonly string[]): object[] {
  return times(random.integer(1, 12), () => {
    const more = {
      event: random.pick(["chat.completed", "other"]),
      onShortage: random.pick(["reject", "reject", "partial"] as const),
    };
    return event(random.pick(users), random.pick(ids), random.integer(0, 12) / 2, more);
  });
}

/** An answer without its random ids. */
function withoutRandomIds(answer: object): unknown {
  const isRandom = ["balanceId", "packId", "requestId"];
  return JSON.parse(JSON.stringify(answer, (name, value) => (isRandom.includes(name) ? undefined : value)));
}

it("a list, compared with its events sent one after another gives the same results and leaves the same balances", {
  timeout: timeoutOf(SEEDS, 20_000),
}, async () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const random = createRandom(seed);
    const ids = times(14, (index) => `e${index}`);
    const [together, alone] = [
      await enter({ users, items: [chatWallet, wallet] }),
      await enter({ users, items: [chatWallet, wallet] }),
    ];
    for (let round = 0; round < 3; round++) {
      const list = someList(random, ids);
      const { body } = await together.send(list);
      const singles: Answer[] = [];
      for (const event of list) singles.push(await alone.send(event));
      const expected = singles.map((single, index) =>
        withoutRandomIds(
          single.status === 200
            ? { ...single.body, ...(single.headers.get("idempotent-replayed") === "true" && { isReplayed: true }) }
            : { eventId: (list[index] as { eventId: string }).eventId, ...single.body },
        ),
      );
      expect(body.results.map(withoutRandomIds), `seed ${seed}, round ${round}: ${JSON.stringify(list)}`).toEqual(
        expected,
      );
    }
    for (const userId of users) expect(await together.remaining(userId)).toBe(await alone.remaining(userId));
  }
});
