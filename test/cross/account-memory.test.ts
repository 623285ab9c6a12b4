import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { countingD1 } from "../support/counting-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { createRandom } from "../support/random.ts";
import { expectError } from "../support/rejections.ts";
import { centsOnly, wallet } from "../support/spender.ts";
import { Clock, makeApp, makeClient, makePack, type TestItem } from "../support/world.ts";

afterAll(expectLedgerInvariants);

const chatCents = { amountMinor: 5_000_000, unit: "cents", matches: [{ event: "chat.*" }], priority: 1 } as const;
/** After a failed guard, an isolate reads the user first for a second. */
const PAUSE_MS = 2_000;

/** A user whose requests reach several isolates, each with its own memory. */
async function makeIsolates(items: readonly TestItem[], count = 2) {
  const clock = new Clock();
  const app = await makeApp();
  const packId = await makePack(app.appId, "Pack", items);
  const isolates = Array.from({ length: count }, () => {
    const counting = countingD1(env.DB);
    const call = makeClient(clock, { DB: counting.d1 });
    const post = (path: string, body: object, key = app.keys.sk_live) => call("POST", `/api/v1${path}`, { key, body });
    return {
      post,
      spend: (eventId: string, amount: number) =>
        post("/usage/events", { eventId, userId: "u", event: "chat.completed", ...centsOnly(amount) }),
      reserve: (reservationId: string, amount: number, more: object = {}) =>
        post("/usage/reservations", {
          reservationId,
          userId: "u",
          event: "chat.completed",
          ...centsOnly(amount),
          ...more,
        }),
      commit: (id: string, eventId: string, amount: number) =>
        post(`/usage/reservations/${id}/commit`, { eventId, ...centsOnly(amount) }),
      release: (id: string) => post(`/usage/reservations/${id}/release`, {}),
      grant: () => post("/credits/grant", { userId: "u", packId }),
      /** The number of trips of one call, which must succeed. */
      trips: async (send: () => Promise<{ status: number }>) => {
        counting.spent();
        const { status } = await send();
        expect(status).toBe(200);
        return counting.spent().roundTrips;
      },
      list: async () =>
        (await call("GET", "/api/v1/credits?userId=u&includeExpired=true", { key: app.keys.sk_live })).body,
    };
  });
  const [one, two] = isolates;
  if (one === undefined || two === undefined) throw new Error("There are fewer than two isolates.");
  return { app, clock, isolates, one, two };
}

it("an isolate that has just written for a user records, holds, commits and releases in one trip", async () => {
  const { one } = await makeIsolates([wallet]);
  await one.grant();
  expect(await one.trips(() => one.spend("e1", 1))).toBe(1);
  expect(await one.trips(() => one.reserve("res_a", 2))).toBe(1);
  expect(await one.trips(() => one.reserve("res_b", 2))).toBe(1);
  expect(await one.trips(() => one.commit("res_a", "e2", 1.5))).toBe(1);
  expect(await one.trips(() => one.release("res_b"))).toBe(1);
  expect((await one.list()).credits[0].remaining).toBe(7.5);
});

it("an isolate that has just written for a user remembers ten holds made at the same time, and commits each in one trip", async () => {
  const { one } = await makeIsolates([wallet]);
  await one.grant();
  const ids = Array.from({ length: 10 }, (_, index) => `res_${index}`);
  await Promise.all(ids.map(async (id) => expect((await one.reserve(id, 0.5)).status).toBe(200)));
  for (const id of ids) expect(await one.trips(() => one.commit(id, `e_${id}`, 0.25))).toBe(1);
  expect((await one.list()).credits[0].remaining).toBe(7.5);
});

it("an isolate that has just written for a user reads before a debit while its own commit is running, so that no batch fails", async () => {
  const { one } = await makeIsolates([wallet]);
  await one.grant();
  await one.reserve("res_a", 2);
  const trips = await one.trips(async () => {
    const [committed, spent] = await Promise.all([one.commit("res_a", "e1", 1), one.spend("e2", 1)]);
    expect(committed.status).toBe(200);
    return spent;
  });
  expect(trips).toBe(3);
  expect((await one.list()).credits[0].remaining).toBe(8);
  expect(await one.trips(() => one.spend("e3", 1))).toBeLessThanOrEqual(2);
  expect(await one.trips(() => one.spend("e4", 1))).toBe(1);
});

it("an isolate that has just written for a user plans with credits that its own commit returned to a balance that was empty at the last read", async () => {
  const { one, two, clock } = await makeIsolates([wallet, chatCents]);
  await one.grant();
  await one.reserve("res_a", 5);
  await two.grant();
  // The second grant fails the guard of this debit. So the user is read, and the balance that is wholly held is empty.
  await one.spend("e1", 5);
  await one.commit("res_a", "e2", 2);
  clock.advance(PAUSE_MS);
  const { body } = await one.spend("e3", 4);
  expect(body.debits).toMatchObject([
    { amount: 3, remaining: 0 },
    { amount: 1, remaining: 9 },
  ]);
});

it("an isolate that has just written for a user takes one trip, while another isolate's first write takes two", async () => {
  const { one, two } = await makeIsolates([wallet]);
  await one.grant();
  await two.post("/credits/plan", { userId: "u", event: "x" });
  expect(await two.trips(() => two.spend("e1", 1))).toBe(2);
  expect(await two.trips(() => two.spend("e2", 1))).toBe(1);
});

it("an isolate that has just written for a user still takes one trip while other isolates only lower balances", async () => {
  const { one, two } = await makeIsolates([wallet]);
  await one.grant();
  await two.spend("e1", 1);
  for (let turn = 0; turn < 5; turn++) {
    expect(await two.trips(() => two.spend(`two${turn}`, 0.5))).toBe(1);
    expect(await one.trips(() => one.spend(`one${turn}`, 0.5))).toBe(1);
  }
  expect((await one.list()).credits[0].remaining).toBe(4);
});

it("an isolate that has just written for a user reads before it answers with a 402, a replay or a conflict", async () => {
  const { one, two } = await makeIsolates([wallet]);
  await one.grant();
  const first = await one.spend("e1", 4);
  expect((await one.spend("e1", 4)).body).toEqual(first.body);
  expectError(await one.spend("e1", 5), "idempotency_conflict", "eventId");
  expectError(await one.spend("e2", 6.5), "insufficient_credits");
  await two.grant();
  expect((await one.spend("e2", 6.5)).status).toBe(200);
});

it("an isolate's memory of a user does not hide another isolate's grant that pays first", async () => {
  const { app, one, two } = await makeIsolates([wallet]);
  await one.grant();
  await one.spend("e1", 1);
  const packId = await makePack(app.appId, "First", [chatCents]);
  await two.post("/credits/grant", { userId: "u", packId });
  const { body } = await one.spend("e2", 1);
  expect(body.debits).toMatchObject([{ packId, remaining: 4 }]);
});

it("an isolate's memory of a user does not hide another isolate's revoke", async () => {
  const { one, two } = await makeIsolates([wallet]);
  const granted = await one.grant();
  await one.spend("e1", 1);
  await two.post("/credits/revoke", { balanceId: granted.body.balanceId });
  expectError(await one.spend("e2", 1), "insufficient_credits");
});

it("an isolate's memory of a user does not hide another isolate's adjustments, up or down", async () => {
  const { one, two } = await makeIsolates([wallet]);
  const { balanceId } = (await one.grant()).body;
  const adjust = (delta: number) =>
    two.post(`/admin/balances/${balanceId}/adjust`, { delta, note: "test" }, env.ADMIN_TOKEN);
  await one.spend("e1", 1);
  await adjust(5);
  expect((await one.spend("e2", 12)).status).toBe(200);
  await adjust(-1.5);
  expectError(await one.spend("e3", 1), "insufficient_credits");
});

it("an isolate's memory of a user does not hide another isolate's hold, which returns before the next debit when it is due", async () => {
  const { one, two, clock } = await makeIsolates([wallet]);
  await one.grant();
  await one.spend("e1", 1);
  await two.reserve("res_a", 9, { expiresInSeconds: 1 });
  clock.advance(1_000);
  expect((await one.spend("e2", 9)).status).toBe(200);
});

it("an isolate's memory of a user does not settle again a reservation that another isolate settled", async () => {
  const { one, two } = await makeIsolates([wallet]);
  await one.grant();
  await one.reserve("res_a", 3);
  await one.reserve("res_b", 3);
  await two.release("res_a");
  await two.commit("res_b", "e1", 1);
  expectError(await one.commit("res_a", "e2", 1), "reservation_closed");
  expectError(await one.release("res_b"), "reservation_closed");
});

it("an isolate's memory of a user does not debit a balance after its expiry", async () => {
  const { app, one, clock } = await makeIsolates([wallet]);
  const packId = await makePack(app.appId, "Short", [chatCents]);
  const expiresAt = new Date(clock.ms + 1_000).toISOString();
  await one.post("/credits/grant", { userId: "u", packId, expiresAt });
  await one.grant();
  expect((await one.spend("e1", 1)).body.debits).toMatchObject([{ packId }]);
  clock.advance(1_000);
  expect((await one.spend("e2", 1)).body.debits).toMatchObject([{ remaining: 9 }]);
});

it("an isolate's memory of a user is separate for each environment: the same user in test mode has nothing", async () => {
  const { app, one } = await makeIsolates([wallet]);
  await one.grant();
  await one.spend("e1", 1);
  const event = { eventId: "e2", userId: "u", event: "chat.completed", ...centsOnly(1) };
  expectError(await one.post("/usage/events", event, app.keys.sk_test), "insufficient_credits");
});

it("a user with more balances than an isolate remembers is read before each debit", async () => {
  const { one } = await makeIsolates(Array.from({ length: 101 }, () => wallet));
  await one.grant();
  await one.spend("e1", 1);
  expect(await one.trips(() => one.spend("e2", 1))).toBe(2);
});

it("three isolates with their own memories spend every credit once, and reject no debit or hold while credits last, in random histories", async () => {
  const random = createRandom(20_260_115);
  for (let round = 0; round < 5; round++) {
    const { isolates, one, clock } = await makeIsolates([chatCents, wallet], 3);
    await one.grant();
    let left = 15;
    for (let step = 0; step < 30; step++) {
      const at = random.pick(isolates);
      const amount = random.integer(1, 8) / 4;
      const act = random.weighted({ spend: 6, hold: 3, grant: 1, wait: 1 });
      if (act === "wait") clock.advance(PAUSE_MS);
      else if (act === "grant") {
        await at.grant();
        left += 15;
      } else if (act === "spend") {
        const { status } = await at.spend(`e${step}`, amount);
        expect(status, `${amount} of ${left}`).toBe(amount <= left ? 200 : 402);
        if (status === 200) left -= amount;
      } else {
        const { status } = await at.reserve(`res_${step}`, amount);
        expect(status, `${amount} of ${left}`).toBe(amount <= left ? 200 : 402);
        if (status !== 200) continue;
        const used = random.integer(0, 4) / 4;
        const settled = random.chance(0.5)
          ? await at.release(`res_${step}`)
          : await random.pick(isolates).commit(`res_${step}`, `c${step}`, used);
        expect(settled.status).toBe(200);
        if ("debits" in settled.body) left -= used;
      }
    }
    const { credits } = await one.list();
    expect(credits.reduce((sum: number, credit: { remaining: number }) => sum + credit.remaining, 0)).toBe(left);
  }
});

it("three isolates with their own memories reject no concurrent debit of one user while credits last", async () => {
  const { isolates, one } = await makeIsolates([wallet], 3);
  await one.grant();
  await Promise.all(isolates.map((isolate, index) => isolate.spend(`warm${index}`, 0.25)));
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, index) => isolates[index % 3]?.spend(`e${index}`, 0.25)),
  );
  expect(answers.filter((answer) => answer?.status === 200)).toHaveLength(37);
  expect(answers.filter((answer) => answer?.status === 402)).toHaveLength(23);
});
