import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { randomId } from "../../../../src/lib/ids.ts";
import { type Cost, countingD1 } from "../../../support/counting-d1.ts";
import { makeAccount } from "../../../support/seed-rows.ts";
import { cents, changeReservation, makeSpender, type Spender } from "../../../support/spender.ts";

// Only other files check the ledger's invariants: over so many expired balances the check takes longer than the tests.
const DEAD = 1_000;

/** Inserts DEAD expired balances, more than a request of few debits may read. They must cost nothing. */
async function addDeadBalances(spender: Spender): Promise<void> {
  const accountId = await makeAccount(spender.app.environments.live.id, spender.userId);
  await env.DB.prepare(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${DEAD})
     INSERT INTO credit_balances (account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority,
       initial_minor, remaining_minor, has_remaining, source_number, granted_at_ms, expires_at_ms, grant_seq, last_seq)
     SELECT ${accountId}, 'crb_dead${accountId}_' || i, 'cpk_dead', 'Dead', 1, 0, 'cents', '[]', 100, 1000, 1000, 1,
       2, 1, 1, last.seq + i, last.seq + i
     FROM n, (SELECT max(seq) AS seq FROM credit_ledger WHERE account_id = ${accountId}) AS last`,
  ).run();
}

interface Measured {
  readonly spender: Spender;
  /** The cost of one request to an isolate that has served nobody. */
  readonly cold: Measure;
  /** The cost of one request to an isolate that has just written for this user. */
  readonly warm: Measure;
}
type Measure = (send: (spender: Spender) => Promise<{ status: number }>) => Promise<Cost>;

/** A user with `live` active balances of 10 cents each and DEAD expired ones. */
async function makeMeasured(live: number): Promise<Measured> {
  const counting = countingD1(env.DB);
  const items = Array.from({ length: live }, () => ({ amountMinor: 10_000_000, unit: "cents" }) as const);
  const granted = await makeSpender(items, { DB: counting.d1 });
  await addDeadBalances(granted);
  // A user's first event that is not yet in a day sum writes a mark for the account.
  expect((await granted.spend("before all", { quantities: { count: 0 } })).status).toBe(200);
  // The isolate that granted does not know of the expired balances, so another one is measured.
  const spender = granted.inNewIsolate();
  const costOf = async (at: Spender, send: Parameters<Measure>[0]) => {
    counting.spent();
    expect((await send(at)).status).toBe(200);
    return counting.spent();
  };
  return {
    spender,
    cold: (send) => costOf(spender.inNewIsolate(), send),
    warm: async (send) => {
      // After another isolate wrote for the user, this one reads first for a while.
      spender.clock.advance(2_000);
      await spender.spend(randomId("warming "), { quantities: { cents: 0.001 } });
      return await costOf(spender, send);
    },
  };
}

/** Rows read for each balance that pays or is held: its row, its ledger row, and the rows that triggers look up. */
const READ_PER_BALANCE = 30;

/** Rows read to check the key, in the first trip. */
const OF_THE_KEY = 2;

interface Allowed {
  readonly trips: number;
  /** Balances that pay or are held. */
  readonly moved: number;
  readonly writtenMax: number;
  /** Balances that become empty, or stop being empty. Each writes one more row of the index. */
  readonly turned?: number;
}

/** Expects the cost to be within the table of docs/architecture.md. */
function expectWithin(cost: Cost, live: number, { trips, moved, writtenMax, turned = 0 }: Allowed): void {
  expect(cost.roundTrips).toBe(trips);
  expect(cost.rowsRead).toBeLessThanOrEqual(2 * live + READ_PER_BALANCE * (moved + 1));
  expect(cost.rowsWritten).toBeLessThanOrEqual(writtenMax + turned);
}

const commitWith = (id: string, amount: number) => (spender: Spender) =>
  changeReservation(spender, id, "commit", { eventId: `of ${id}`, ...cents(amount) });
const reserveWith = (reservationId: string, amount: number) => (spender: Spender) =>
  spender.reserve({ reservationId, ...cents(amount) });

describe.each([1, 10, 100])("with %i active balances and a thousand expired ones", (live) => {
  it("an event costs two trips and 2p + 3 rows, one more for each balance emptied; a replay one trip and no row", async () => {
    const { cold } = await makeMeasured(live);
    expectWithin(await cold((at) => at.spend("e1", cents(1))), live, { trips: 2, moved: 1, writtenMax: 5 });
    const all = (at: Spender) => at.spend("e2", cents(10 * live - 1));
    expectWithin(await cold(all), live, { trips: 2, moved: live, writtenMax: 2 * live + 3, turned: live });
    const replay = await cold(all);
    expect(replay).toMatchObject({ roundTrips: 1, rowsWritten: 0 });
    // One balance that can pay is left. The answer reads the balance of each debit.
    expect(replay.rowsRead).toBeLessThanOrEqual(2 * 1 + 12 + 2 * live + OF_THE_KEY);
  });

  it("an event with properties over 1 KiB costs two rows more", async () => {
    const { cold, warm } = await makeMeasured(live);
    const large = (id: string) => (at: Spender) =>
      at.spend(id, { ...cents(1), properties: { text: "x".repeat(1_100) } });
    expectWithin(await cold(large("e1")), live, { trips: 2, moved: 1, writtenMax: 7 });
    expectWithin(await warm(large("e2")), live, { trips: 1, moved: 1, writtenMax: 7 });
  });

  it("an event costs one trip, and no more rows, if the isolate has just written for the user", async () => {
    const { warm } = await makeMeasured(live);
    expectWithin(await warm((at) => at.spend("e1", cents(1))), live, { trips: 1, moved: 1, writtenMax: 5 });
    const most = (at: Spender) => at.spend("e2", cents(10 * live - 2));
    expectWithin(await warm(most), live, { trips: 1, moved: live, writtenMax: 2 * live + 3, turned: live });
  });

  it("an event costs no more after twenty earlier events", async () => {
    const { spender, cold, warm } = await makeMeasured(live);
    for (let index = 0; index < 20; index++) await spender.spend(`before${index}`, cents(0.1));
    expectWithin(await warm((at) => at.spend("e1", cents(1))), live, { trips: 1, moved: 1, writtenMax: 5 });
    expectWithin(await cold((at) => at.spend("e2", cents(1))), live, { trips: 2, moved: 1, writtenMax: 5 });
  });

  it.each(["cold", "warm"] as const)(
    "reserve costs 2p + 3 rows, commit 4p + 5, release 2p + 2, extend 2, each in two trips cold and one warm: %s",
    async (state) => {
      const measures = await makeMeasured(live);
      const cost = measures[state];
      const trips = state === "cold" ? 2 : 1;
      const amount = 10 * live - 2;
      expectWithin(await cost(reserveWith("res_1", 1)), live, { trips, moved: 1, writtenMax: 5 });
      expectWithin(await cost(commitWith("res_1", 1)), live, { trips, moved: 2, writtenMax: 9 });
      expectWithin(await cost(reserveWith("res_2", 1)), live, { trips, moved: 1, writtenMax: 5 });
      const extend = (at: Spender) => changeReservation(at, "res_2", "extend", { expiresInSeconds: 600 });
      expectWithin(await cost(extend), 0, { trips, moved: 0, writtenMax: 2 });
      const release = await cost((at) => changeReservation(at, "res_2", "release"));
      expectWithin(release, live, { trips, moved: 1, writtenMax: 4 });
      const reserved = await cost(reserveWith("res_3", amount));
      expectWithin(reserved, live, { trips, moved: live, writtenMax: 2 * live + 3, turned: live });
      const committed = await cost(commitWith("res_3", amount));
      expectWithin(committed, live, { trips, moved: 2 * live, writtenMax: 4 * live + 5, turned: 2 * live });
    },
  );

  it("a due charge adds the rows of a commit, and no trip, to the next event", async () => {
    const { spender, cold } = await makeMeasured(live);
    await spender.reserve({ reservationId: "res_1", onExpiry: "charge", expiresInSeconds: 1, ...cents(10 * live - 2) });
    spender.clock.advance(1_000);
    const [ofCommit, ofEvent] = [4 * live + 5, 3 + 2];
    // The balances that the reservation emptied are filled by the return, and emptied again.
    expectWithin(await cold((at) => at.spend("e1", cents(0.1))), live, {
      trips: 2,
      moved: 2 * live + 1,
      writtenMax: ofCommit + ofEvent,
      turned: 2 * live,
    });
  });
});

// These costs do not depend on the balances, so the most of them are enough.

const live = 100;

it("with 100 active balances and a thousand expired ones a user's first event costs 3 more rows, including the mark of the day sums", async () => {
  const { cold } = await makeMeasured(live);
  const event = (eventId: string) => (at: Spender) =>
    at.spend(eventId, { userId: "newcomer", ...cents(1), onShortage: "partial" });
  const first = await cold(event("first"));
  expectWithin(first, 0, { trips: 2, moved: 0, writtenMax: 3 + 3 });
  const other = await cold(event("second"));
  expect(first.rowsWritten - other.rowsWritten).toBe(3);
});

it("with 100 active balances and a thousand expired ones totals read only the events since `from`", async () => {
  const { spender, cold } = await makeMeasured(live);
  for (let index = 0; index < 20; index++) {
    spender.clock.advance(60_000);
    await spender.spend(`e${index}`, cents(0.1));
  }
  const from = new Date(spender.clock.ms - 4 * 60_000).toISOString();
  const read = await cold((at) => at.get(`/api/v1/usage?userId=${spender.userId}&from=${from}`));
  expect(read).toMatchObject({ roundTrips: 1, rowsWritten: 0 });
  expect(read.rowsRead).toBeLessThanOrEqual(3 * 5 + 5 + OF_THE_KEY);
});

it("with 100 active balances and a thousand expired ones a page of n reservations takes one trip and reads 4n + 20 rows and the open ones twice, however many are settled", async () => {
  const { spender, cold } = await makeMeasured(live);
  for (let index = 0; index < 60; index++) {
    await spender.reserve({ reservationId: `res_${index}`, ...cents(0.01) });
    if (index % 12 > 0) await changeReservation(spender, `res_${index}`, "release");
  }
  const [n, open] = [4, 5];
  const first = (await spender.get(`/api/v1/usage/reservations?userId=${spender.userId}&limit=${n}`)).body;
  for (const more of ["", "&status=open", "&status=released", "&status=expired", `&cursor=${first.nextCursor}`]) {
    const page = await cold((at) => at.get(`/api/v1/usage/reservations?userId=${at.userId}&limit=${n}${more}`));
    expect(page).toMatchObject({ roundTrips: 1, rowsWritten: 0 });
    expect(page.rowsRead).toBeLessThanOrEqual(4 * n + 2 * open + 20 + OF_THE_KEY);
  }
});

it("with 100 active balances and a thousand expired ones an event costs the same with many open and many settled reservations", async () => {
  const { spender, cold } = await makeMeasured(live);
  const lone = await cold((at) => at.spend("e0", cents(0.1)));
  for (let index = 0; index < 20; index++) {
    await spender.reserve({ reservationId: `res_${index}`, ...cents(0.1), expiresInSeconds: 60 + index });
    if (index % 2 === 0) await spender.post(`/api/v1/usage/reservations/res_${index}/release`);
  }
  const beside = await cold((at) => at.spend("e1", cents(0.1)));
  expect(beside.rowsRead).toBeLessThanOrEqual(lone.rowsRead + 2);
  expect(beside.rowsWritten).toBe(lone.rowsWritten);
});
