import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it } from "vitest";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { type Answer, Clock, makeApp, makeClient, makeLegacyPack, makePack } from "../support/world.ts";

afterAll(expectLedgerInvariants);

const clock = new Clock();

/** An application with a wallet of cents, a key, and a way to send. */
async function enter(settings: Partial<Env> = {}) {
  const app = await makeApp();
  const call = makeClient(clock, settings);
  await makeLegacyPack(app.appId, "Wallet", "cents");
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
    motions: async (userId: string): Promise<Record<string, number[]>> => {
      const told = await env.DB.prepare(
        "SELECT reason, delta_steps AS delta FROM credit_ledger WHERE environment_id = ? AND user_id = ? ORDER BY seq",
      )
        .bind(app.environments.live.id, userId)
        .all<{ reason: string; delta: number }>();
      const deltas: Record<string, number[]> = {};
      for (const { reason, delta } of told.results) deltas[reason] = [...(deltas[reason] ?? []), delta / 1_000_000];
      return deltas;
    },
  };
}

const times = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));
const all = <T>(count: number, make: (index: number) => Promise<T>): Promise<T[]> => Promise.all(times(count, make));
const statuses = (answers: readonly Answer[]): Record<number, number> => {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
};
const distinct = (answers: readonly Answer[]): number => new Set(answers.map(({ body }) => JSON.stringify(body))).size;

describe("grants at once", () => {
  it("answers fifty identical grants with one set of rows", async () => {
    const { app, post, motions } = await enter();
    await makePack(app.appId, "Two", [
      { amountSteps: 1_000_000, unit: "cents" },
      { amountSteps: 2_000_000, unit: "cents" },
    ]);
    const body = { userId: "u", packId: "Two", externalRef: "order-1" };
    const answers = await all(50, () => post("credits/grant", body));
    expect(statuses(answers)).toEqual({ 200: 50 });
    expect(distinct(answers)).toBe(1);
    expect(answers.filter(({ headers }) => headers.get("idempotent-replayed") === null)).toHaveLength(1);
    expect(await motions("u")).toEqual({ grant: [1, 2] });
  });

  it("lets one of two grants that race for the last place of the test quota win", async () => {
    for (let round = 0; round < 10; round++) {
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
});

describe("events at once", () => {
  it("lands 142 of 300 events on one user with money for 142, and refuses 158 with 402", async () => {
    const { post, grant, remaining, motions } = await enter();
    // Three balances, so that some events are paid by two; 7 cents each, and 3 to spare.
    for (const quantity of [400, 500, 97]) await grant("u", quantity);
    const answers = await all(300, (index) =>
      post("usage/events", { eventId: `e${index}`, userId: "u", event: "call", quantities: { cents: 7 } }),
    );
    expect(statuses(answers)).toEqual({ 200: 142, 402: 158 });
    for (const { status, body } of answers) {
      if (status === 402) expect(body.error).toMatchObject({ code: "insufficient_credits" });
    }
    expect(await remaining("u")).toEqual(expect.arrayContaining([3]));
    const debits = (await motions("u")).event_committed ?? [];
    expect(debits.reduce((sum, delta) => sum + delta, 0)).toBe(-142 * 7);
  });

  it("answers a hundred identical events with one debit and a hundred equal answers", async () => {
    const { post, grant, motions } = await enter();
    await grant("u", 500);
    const body = { eventId: "e", userId: "u", event: "call", quantities: { cents: 75 } };
    const answers = await all(100, () => post("usage/events", body));
    expect(statuses(answers)).toEqual({ 200: 100 });
    expect(distinct(answers)).toBe(1);
    expect(answers.filter(({ headers }) => headers.get("idempotent-replayed") === null)).toHaveLength(1);
    expect(await motions("u")).toEqual({ grant: [500], event_committed: [-75] });
  });
});
