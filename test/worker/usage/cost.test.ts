import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { findKey } from "../../../src/access/keys.ts";
import { makeAccount } from "../../support/account.ts";
import { type Cost, countingD1 } from "../../support/counting-d1.ts";
import { makeSpender, type Spender } from "../../support/spender.ts";

// Other files hold the ledger to its sums; over so many dead balances that check takes longer than all the rest.
const DEAD = 10_000;

/** As many balances that are depleted, revoked or expired: what they cost is to be nothing. */
async function bury(spender: Spender): Promise<void> {
  const accountId = await makeAccount(spender.app.environments.live.id, spender.userId);
  await env.DB.prepare(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${DEAD})
     INSERT INTO credit_balances (account_id, id, pack_id, pack_name, pack_item_id, unit, matches, priority,
       initial_steps, remaining_steps, has_remaining, source, granted_at_ms, expires_at_ms, grant_seq, last_seq)
     SELECT ${accountId}, 'crb_dead${accountId}_' || i, 'cpk_dead', 'Dead', '', 'cents', '[]', 100, 1000, 1000, 1,
       'manual', 0, 1, last.seq + i, last.seq + i
     FROM n, (SELECT max(seq) AS seq FROM credit_ledger WHERE account_id = ${accountId}) AS last`,
  ).run();
}

interface Measured {
  readonly spender: Spender;
  /** The cost of one request, its key known already. */
  readonly cost: (send: () => Promise<{ status: number }>) => Promise<Cost>;
}

/** A user with `live` balances of 10 cents each and 10,000 dead ones. */
async function measured(live: number): Promise<Measured> {
  const counting = countingD1(env.DB);
  const items = Array.from({ length: live }, () => ({ amountSteps: 10_000_000, unit: "cents" }) as const);
  const spender = await makeSpender(items, { DB: counting.d1 });
  await bury(spender);
  return {
    spender,
    cost: async (send) => {
      await findKey(env.DB, spender.app.keys.sk_live, spender.clock.now());
      counting.spent();
      expect((await send()).status).toBe(200);
      return counting.spent();
    },
  };
}

/** Rows read for each balance that pays or is held: its row, its ledger row, and what the triggers look up. */
const READ_PER_BALANCE = 30;

/** What design.md allows, with `moved` balances touched. Emptying or filling a balance writes its index once more. */
function expectWithin(cost: Cost, live: number, moved: number, writtenMax: number, turned: number): void {
  expect(cost.roundTrips).toBeLessThanOrEqual(2);
  expect(cost.rowsRead).toBeLessThanOrEqual(2 * live + READ_PER_BALANCE * (moved + 1));
  expect(cost.rowsWritten).toBeLessThanOrEqual(writtenMax + turned);
}

const cents = (amount: number) => ({ quantities: { cents: amount } });

describe.each([1, 10, 100])("with %i live balances and 10,000 dead ones", (live) => {
  it("an event costs two trips and 2p + 2 rows, one more for each balance emptied; a replay one trip and no row", async () => {
    const { spender, cost } = await measured(live);
    expectWithin(await cost(() => spender.spend("e1", cents(1))), live, 1, 4, 0);
    const all = () => spender.spend("e2", cents(10 * live - 1));
    expectWithin(await cost(all), live, live, 2 * live + 2, live);
    const replay = await cost(all);
    expect(replay).toMatchObject({ roundTrips: 1, rowsWritten: 0 });
    // One balance is left that can pay.
    expect(replay.rowsRead).toBeLessThanOrEqual(2 * 1 + 10);
  });

  it("an event of many pays no more for the many that came before it", async () => {
    const { spender, cost } = await measured(live);
    for (let index = 0; index < 20; index++) await spender.spend(`before${index}`, cents(0.1));
    expectWithin(await cost(() => spender.spend("e1", cents(1))), live, 1, 4, 0);
  });

  it("reserve costs 2p + 2 rows, commit 4p + 4, release 2p + 2, each two trips", async () => {
    const { spender, cost } = await measured(live);
    const reserve = (reservationId: string, amount: number) => () =>
      spender.reserve({ reservationId, ...cents(amount) });
    const path = (id: string, verb: string) => `/api/v1/usage/reservations/${id}/${verb}`;
    const commit = (id: string, amount: number) => () =>
      spender.post(path(id, "commit"), { eventId: `of ${id}`, ...cents(amount) });

    expectWithin(await cost(reserve("res_1", 1)), live, 1, 4, 0);
    expectWithin(await cost(commit("res_1", 1)), live, 2, 8, 0);
    expectWithin(await cost(reserve("res_2", 1)), live, 1, 4, 0);
    expectWithin(await cost(() => spender.post(path("res_2", "release"))), live, 1, 4, 0);
    expectWithin(await cost(reserve("res_3", 10 * live - 1)), live, live, 2 * live + 2, live);
    expectWithin(await cost(commit("res_3", 10 * live - 1)), live, 2 * live, 4 * live + 4, 2 * live);
  });

  it("a user's first event costs 2 rows more", async () => {
    const { spender, cost } = await measured(live);
    const event = (userId: string) => () =>
      spender.spend(`first of ${userId}`, { userId, ...cents(1), onShortage: "partial" });
    const first = await cost(event("newcomer"));
    expectWithin(first, 0, 0, 2 + 2, 0);
    const other = await cost(() => spender.spend("second", { userId: "newcomer", ...cents(1), onShortage: "partial" }));
    expect(first.rowsWritten - other.rowsWritten).toBe(2);
  });

  it("totals read the events from `from` on alone", async () => {
    const { spender, cost } = await measured(live);
    for (let index = 0; index < 20; index++) {
      spender.clock.advance(60_000);
      await spender.spend(`e${index}`, cents(0.1));
    }
    const from = new Date(spender.clock.ms - 4 * 60_000).toISOString();
    const read = await cost(() => spender.get(`/api/v1/usage?userId=${spender.userId}&from=${from}`));
    expect(read).toMatchObject({ roundTrips: 1, rowsWritten: 0 });
    expect(read.rowsRead).toBeLessThanOrEqual(2 * 5 + 2);
  });

  it("an event costs the same beside many open reservations and after many settled ones", async () => {
    const { spender, cost } = await measured(live);
    const lone = await cost(() => spender.spend("e0", cents(0.1)));
    for (let index = 0; index < 20; index++) {
      await spender.reserve({ reservationId: `res_${index}`, ...cents(0.1), expiresInSeconds: 60 + index });
      if (index % 2 === 0) await spender.post(`/api/v1/usage/reservations/res_${index}/release`);
    }
    const beside = await cost(() => spender.spend("e1", cents(0.1)));
    expect(beside.rowsRead).toBeLessThanOrEqual(lone.rowsRead + 2);
    expect(beside.rowsWritten).toBe(lone.rowsWritten);
  });
});
