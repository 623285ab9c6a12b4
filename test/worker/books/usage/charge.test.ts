import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { UNITS } from "../../../../src/books/amounts/amount.ts";
import { iso } from "../../../../src/lib/time.ts";
import { documentOf } from "../../../support/exports.ts";
import { hookedD1 } from "../../../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { RESERVATIONS } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { seedHolds } from "../../../support/seed-rows.ts";
import { cents, changeReservation, makeSpender, runHoldsPart, type Spender, wallet } from "../../../support/spender.ts";
import { type Answer, makeClient, makeOpenAmountPack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const reserveToCharge = (spender: Pick<Spender, "reserve">, reservationId: string, amount: number, seconds = 60) =>
  spender.reserve({ reservationId, onExpiry: "charge", expiresInSeconds: seconds, ...cents(amount) });
const read = async ({ get }: Spender, id = "res_1") => (await get(`${RESERVATIONS}/${id}`)).body;
const commit = (spender: Pick<Spender, "post">, eventId = "e1", amount = 1) =>
  changeReservation(spender, "res_1", "commit", { eventId, ...cents(amount) });
const entryLines = async (spender: Spender) =>
  (await spender.ledger()).toReversed().map(({ delta, reason, eventId }) => `${delta} ${reason} ${eventId}`);
const totals = async ({ get, userId }: Spender) => (await get(`/api/v1/usage?userId=${userId}`)).body.totals;

/** A user whose reservation of 4 of 10 cents has been due for a second, and will be charged. */
async function dueCharge(items: Parameters<typeof makeSpender>[0] = [wallet]): Promise<Spender> {
  const spender = await makeSpender(items);
  expect((await reserveToCharge(spender, "res_1", 4)).status).toBe(200);
  spender.clock.advance(61_000);
  return spender;
}
const CHARGED = [
  "10 grant null",
  "-4 reservation_held null",
  "4 reservation_released null",
  "-4 event_committed res_1",
];

/** Every request that settles a due hold, with the expected error code. */
const ways: readonly {
  readonly name: string;
  readonly act: (spender: Spender) => Promise<Answer | undefined>;
  readonly code: Parameters<typeof expectError>[1] | null;
}[] = [
  { name: "the cron", act: (spender) => runHoldsPart(spender).then(() => undefined), code: null },
  { name: "the user's next event", act: ({ spend }) => spend("e1", cents(1)), code: null },
  { name: "a refused event", act: ({ spend }) => spend("e1", cents(7)), code: "insufficient_credits" },
  { name: "a refused reservation", act: ({ reserve }) => reserve(cents(7)), code: "insufficient_credits" },
  { name: "a late commit", act: (spender) => commit(spender), code: "reservation_closed" },
  {
    name: "a late release",
    act: (spender) => changeReservation(spender, "res_1", "release"),
    code: "reservation_closed",
  },
  {
    name: "a late extension",
    act: (spender) => changeReservation(spender, "res_1", "extend", { expiresInSeconds: 600 }),
    code: "reservation_closed",
  },
];

it.each(ways)(
  "a reservation that is charged if nobody settles it is committed with the reserved quantities, once, by $name",
  async ({ act, code }) => {
    const spender = await dueCharge();
    const { clock } = spender;
    const expiresAtMs = clock.ms - 1_000;
    const committed = { status: "committed", eventId: "res_1", onExpiry: "charge" };
    expect(await read(spender)).toMatchObject({ ...committed, settledAt: null });
    for (let count = 0; count < 2; count++) {
      const answer = await act(count === 0 ? spender : spender.inNewIsolate());
      if (answer !== undefined && code !== null) expectError(answer, code);
    }
    expect(await read(spender)).toMatchObject({ ...committed, settledAt: iso(clock.ms) });
    expect((await entryLines(spender)).slice(0, 4)).toEqual(CHARGED);
    expect((await entryLines(spender)).filter((line) => line.includes("res_1"))).toHaveLength(1);
    const stored = await env.DB.prepare(
      `SELECT occurred_at_ms AS occurredAtMs, received_at_ms AS receivedAtMs, debits, uncovered FROM usage_events
       WHERE event_id = 'res_1' AND account_id = (SELECT id FROM accounts WHERE user_id = ?)`,
    )
      .bind(spender.userId)
      .all<{ debits: string }>();
    expect(stored.results).toMatchObject([{ occurredAtMs: expiresAtMs, receivedAtMs: clock.ms, uncovered: null }]);
    expect(JSON.parse(stored.results[0]?.debits ?? "")).toEqual([
      [expect.any(Number), UNITS.indexOf("cents"), 4_000_000, 6_000_000],
    ]);
  },
);

it("a reservation that is charged if nobody settles it becomes a usage event at its expiry, in totals and in the person's export", async () => {
  const spender = await dueCharge();
  expect(await totals(spender)).toEqual([]);
  await runHoldsPart(spender);
  expect(await totals(spender)).toEqual([
    { event: "chat.completed", unit: "count", amount: 1 },
    { event: "chat.completed", unit: "cents", amount: 4 },
  ]);
  const end = iso(spender.clock.ms - 1_000);
  const after = await spender.get(`/api/v1/usage?userId=${spender.userId}&from=${end}`);
  expect(after.body.totals).toHaveLength(2);
  const before = await spender.get(`/api/v1/usage?userId=${spender.userId}&to=${end}`);
  expect(before.body.totals).toEqual([]);
  const { events } = await documentOf(spender.app, spender.userId, spender.clock);
  expect(events.metering).toMatchObject([
    { eventId: "res_1", occurredAt: end, receivedAt: iso(spender.clock.ms), debits: [{ amount: 4, remaining: 6 }] },
  ]);
});

it("a reservation that is charged if nobody settles it is not charged when it is committed, released or extended in time", async () => {
  const spender = await makeSpender([wallet]);
  for (const id of ["res_1", "res_2", "res_3"]) await reserveToCharge(spender, id, 1);
  await commit(spender);
  await changeReservation(spender, "res_2", "release");
  await changeReservation(spender, "res_3", "extend", { expiresInSeconds: 600 });
  spender.clock.advance(61_000);
  await runHoldsPart(spender);
  expect(await spender.remaining()).toEqual([8]);
  expect(await read(spender, "res_3")).toMatchObject({ status: "open" });
  spender.clock.advance(600_000);
  await runHoldsPart(spender);
  expect(await spender.remaining()).toEqual([8]);
  expect((await entryLines(spender)).at(-1)).toBe("-1 event_committed res_3");
});

it("a reservation that is charged if nobody settles it is paid by the balance that it held even if that has expired since, and not by one granted later", async () => {
  const { reserve, post, get, clock, userId, app } = await makeSpender([]);
  await makeOpenAmountPack(app.appId, "Wallet", "cents");
  const grant = (more: object) => post("/api/v1/credits/grant", { userId, packId: "Wallet", quantity: 10, ...more });
  await grant({ expiresAt: iso(clock.ms + 90_000) });
  await reserveToCharge({ reserve }, "res_1", 8);
  await post("/api/v1/usage/events", { eventId: "e0", userId, event: "x", ...cents(2) });
  clock.advance(100_000);
  expect((await grant({})).status).toBe(200);
  const { credits } = (await get(`/api/v1/credits?userId=${userId}&includeExpired=true`)).body;
  const left = credits.map(({ remaining, status }: { remaining: number; status: string }) => [status, remaining]);
  expect(left).toEqual(
    expect.arrayContaining([
      ["active", 10],
      ["expired", 0],
    ]),
  );
});

it("a reservation that is charged if nobody settles it is paid by other balances if its own was revoked, and the rest is uncovered", async () => {
  const spender = await makeSpender([
    { ...wallet, priority: 1 },
    { amountMinor: 3_000_000, unit: "cents", priority: 2 },
  ]);
  await reserveToCharge(spender, "res_1", 4);
  await spender.post("/api/v1/credits/revoke", { balanceId: spender.balanceIds[0] });
  spender.clock.advance(61_000);
  await runHoldsPart(spender);
  expect(await spender.remaining()).toEqual([0, 0]);
  expect((await entryLines(spender)).slice(-3)).toEqual([
    "4 reservation_released null",
    "-4 admin_adjust null",
    "-3 event_committed res_1",
  ]);
  const stored = await env.DB.prepare(
    "SELECT uncovered FROM usage_events WHERE event_id = 'res_1' AND account_id = (SELECT id FROM accounts WHERE user_id = ?)",
  )
    .bind(spender.userId)
    .first();
  expect(stored).toEqual({ uncovered: '{"count":0.25,"cents":1}' });
});

it("a reservation that is charged if nobody settles it and others are settled in the order of their expiries, then of their creation", async () => {
  const spender = await makeSpender([wallet]);
  await reserveToCharge(spender, "res_late", 1, 90);
  await reserveToCharge(spender, "res_b", 1, 60);
  await spender.reserve({ reservationId: "res_back", expiresInSeconds: 70, ...cents(1) });
  await reserveToCharge(spender, "res_a", 1, 60);
  spender.clock.advance(90_000);
  await runHoldsPart(spender);
  expect((await entryLines(spender)).slice(5)).toEqual([
    ...["res_b", "res_a"].flatMap((id) => ["1 reservation_released null", `-1 event_committed ${id}`]),
    "1 reservation_expired null",
    ...["1 reservation_released null", "-1 event_committed res_late"],
  ]);
});

it("a reservation that is charged if nobody settles it and hundreds of others of the user are charged by one run of the cron", async () => {
  const spender = await makeSpender([{ amountMinor: 500_000_000, unit: "cents" }]);
  const { app, clock, userId } = spender;
  const [minor, quantities] = [1_000_000, { cents: 1 }];
  const due = { onExpiry: "charge", createdAtMs: clock.ms, expiresAtMs: clock.ms + 60_000 } as const;
  await seedHolds(app.environments.live, new Map([[userId, 410]]), { minor, quantities, ...due });
  clock.advance(61_000);
  await runHoldsPart(spender);
  expect(await spender.remaining()).toEqual([90]);
  expect((await totals(spender)).at(-1)).toMatchObject({ unit: "cents", amount: 410 });
}, 60_000);

it("a reservation that is charged if nobody settles it counts as charged in a plan and in the reasons of a rejection, even before it is charged", async () => {
  const spender = await dueCharge();
  const { post, userId, balanceIds } = spender;
  const plan = await post("/api/v1/credits/plan", { userId, event: "x", ...cents(7) });
  expect(plan.body).toMatchObject({ debits: [{ amount: 6, remaining: 0 }], uncovered: { cents: 1 } });
  expect(await entryLines(spender)).toHaveLength(2);
  const refused = await spender.spend("e1", cents(7));
  expect(refused.body.error.details).toMatchObject({
    uncovered: { cents: 1 },
    skipped: [{ balanceId: balanceIds[0], reason: "exhausted" }],
  });
});

it("a reservation that is charged if nobody settles it is rejected with an unknown onExpiry, and a repeat with another onExpiry is a conflict", async () => {
  const { reserve } = await makeSpender([wallet]);
  for (const onExpiry of ["keep", null, true]) {
    expectError(await reserve({ onExpiry, ...cents(1) }), "invalid_request", "onExpiry");
  }
  await reserveToCharge({ reserve }, "res_1", 1);
  const other = await reserve({ reservationId: "res_1", expiresInSeconds: 60, ...cents(1) });
  expectError(other, "idempotency_conflict", "reservationId");
  expect(other.body.error.details).toEqual({ differs: ["onExpiry"] });
});

/** The same user, whose requests use another D1 object. */
const over = ({ app, clock }: Spender, d1: D1Database): Pick<Spender, "post"> => {
  const call = makeClient(clock, { DB: d1 });
  return { post: (path, body) => call("POST", path, { key: app.keys.sk_live, body: body ?? {} }) };
};
/** Runs `work` before a verb's nth trip. */
const beforeTrip = (nth: number, work: () => Promise<unknown>) =>
  hookedD1(env.DB, async (trip) => {
    if (trip === nth) await work();
  });

// The cron reads who is due, and then the account with its balances, and then writes.
it.each([2, 3])("a charge that races loses to a commit in time that comes before trip %i of the cron", async (trip) => {
  const spender = await makeSpender([wallet]);
  await reserveToCharge(spender, "res_1", 4);
  spender.clock.advance(60_000);
  const d1 = beforeTrip(trip, async () => {
    // Another isolate's clock is a millisecond behind.
    spender.clock.advance(-1);
    expect((await commit(spender.inNewIsolate())).status).toBe(200);
    spender.clock.advance(1);
  });
  await runHoldsPart(spender, d1);
  expect(await spender.remaining()).toEqual([9]);
  expect(await read(spender)).toMatchObject({ status: "committed", eventId: "e1" });
});

it.each([1, 2])("a charge that races by the cron wins if it comes before trip %i of a late commit", async (trip) => {
  const spender = await dueCharge();
  const answer = await commit(
    over(
      spender,
      beforeTrip(trip, () => runHoldsPart(spender)),
    ),
  );
  expectError(answer, "reservation_closed");
  expect(await entryLines(spender)).toEqual(CHARGED);
});

it.each([2, 3])(
  "a charge that races loses to an extension in time that comes before trip %i of the cron",
  async (trip) => {
    const spender = await makeSpender([wallet]);
    await reserveToCharge(spender, "res_1", 4);
    spender.clock.advance(60_000);
    const d1 = beforeTrip(trip, async () => {
      spender.clock.advance(-1);
      const answer = await changeReservation(spender.inNewIsolate(), "res_1", "extend", { expiresInSeconds: 600 });
      expect(answer.status).toBe(200);
      spender.clock.advance(1);
    });
    await runHoldsPart(spender, d1);
    expect(await spender.remaining()).toEqual([6]);
    expect(await read(spender)).toMatchObject({ status: "open", settledAt: null });
  },
);

it("a charge that races is planned again if its balance is revoked between its read and its write", async () => {
  const spender = await makeSpender([wallet, { amountMinor: 1_000_000, unit: "cents", priority: 200 }]);
  await reserveToCharge(spender, "res_1", 4);
  spender.clock.advance(60_000);
  const d1 = beforeTrip(3, async () => {
    spender.clock.advance(-1);
    await spender.inNewIsolate().post("/api/v1/credits/revoke", { balanceId: spender.balanceIds[0] });
    spender.clock.advance(1);
  });
  await runHoldsPart(spender, d1);
  expect(await spender.remaining()).toEqual([0, 0]);
  expect((await entryLines(spender)).slice(-4)).toEqual([
    "-6 admin_adjust null",
    "4 reservation_released null",
    "-4 admin_adjust null",
    "-1 event_committed res_1",
  ]);
});

it("a charge that races happens once if thirty requests and crons race", async () => {
  const spender = await dueCharge();
  const acts = ways.map(({ act }) => act);
  await Promise.all(
    Array.from({ length: 30 }, (_, index) => {
      const act = acts[index % acts.length];
      return act?.(index % 3 === 0 ? spender : spender.inNewIsolate());
    }),
  );
  const lines = await entryLines(spender);
  expect(lines.filter((line) => line === "-4 event_committed res_1")).toHaveLength(1);
  expect(lines.filter((line) => line === "4 reservation_released null")).toHaveLength(1);
  expect(await spender.remaining()).toEqual([5]);
});
