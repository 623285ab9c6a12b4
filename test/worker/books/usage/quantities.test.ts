import { afterAll, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { EVENTS } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { cents, makeSpender, runHoldsPart, wallet } from "../../../support/spender.ts";
import { makeOpenAmountPack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const free = cents(0);
/** One that sends nothing costs a count of 1, and so does one that sends a 0 beside a 1. */
const paid = [{}, { quantities: {} }, { quantities: { cents: 0, count: 1 } }];

it("an event whose quantities are all 0 is free: recorded, nothing debited, nothing uncovered, also as a hold, a commit, a charge, a plan and in a list", async () => {
  for (const items of [[], [{ amountMinor: 5_000, unit: "count" as const }, wallet]]) {
    const w = await makeSpender(items);
    const { userId, post } = w;
    const isFree = { debits: [], uncovered: null };
    expect((await w.spend("e1", free)).body).toEqual({ eventId: "e1", ...isFree });
    expect((await w.spend("e1", free)).headers.get("idempotent-replayed")).toBe("true");
    expect((await w.spend("e2", { ...free, onShortage: "partial" })).body).toEqual({ eventId: "e2", ...isFree });
    expect((await w.spend("e3", { quantities: { count: 0 } })).body).toEqual({ eventId: "e3", ...isFree });
    const listed = await post(EVENTS, [{ eventId: "e4", userId, event: "x", ...free }]);
    expect(listed.body.results).toEqual([{ eventId: "e4", ...isFree }]);
    expect((await post("/api/v1/credits/plan", { userId, event: "x", ...free })).body).toMatchObject(isFree);
    for (const [id, more] of [["res_1", {}] as const, ["res_2", { onExpiry: "charge" }] as const]) {
      const held = await w.reserve({ reservationId: id, expiresInSeconds: 60, ...free, ...more });
      expect([held.status, held.body.holds]).toEqual([200, []]);
    }
    const committed = await post("/api/v1/usage/reservations/res_1/commit", { eventId: "e5", ...free });
    expect(committed.body).toEqual({ eventId: "e5", ...isFree });
    w.clock.advance(60_000);
    await runHoldsPart(w);
    const { events } = (await w.get(`${EVENTS}?userId=${userId}`)).body;
    expect(events.map(({ eventId }: { eventId: string }) => eventId).sort()).toEqual(
      ["e1", "e2", "e3", "e4", "e5", "res_2"].sort(),
    );
    for (const event of events) expect(event).toMatchObject(isFree);
    expect(await w.remaining()).toEqual(items.length === 0 ? [] : [5, 10]);
  }
});

it("an event whose quantities are all 0 is counted as one event, unless it says count: 0", async () => {
  const w = await makeSpender([]);
  await w.spend("e1", free);
  await w.spend("e2", { quantities: { count: 0, cents: 0 } });
  expect((await w.get(`/api/v1/usage?userId=${w.userId}`)).body.totals).toEqual([
    { event: "chat.completed", unit: "count", amount: 1 },
  ]);
});

it("an event whose quantities are all 0 is not an event without quantities, or with a count of 1: these cost a count", async () => {
  const poor = await makeSpender([]);
  for (const body of paid) {
    const answer = await poor.spend("e1", body);
    expectError(answer, "insufficient_credits");
    expect(answer.body.error.details.uncovered).toMatchObject({ count: 1 });
  }
  await poor.spend("e1", free);
  expectError(await poor.spend("e1", { quantities: { cents: 0, count: 1 } }), "idempotency_conflict", "eventId");
  const rich = await makeSpender([{ amountMinor: 5_000, unit: "count" }]);
  for (const [index, body] of paid.entries()) expect((await rich.spend(`e${index}`, body)).status).toBe(200);
  expect(await rich.remaining()).toEqual([2]);
});

it("an event whose quantities are all 0 settles a hold and returns all of it", async () => {
  const w = await makeSpender([wallet]);
  await w.reserve({ reservationId: "res_1", ...cents(4) });
  const answer = await w.post("/api/v1/usage/reservations/res_1/commit", { eventId: "e1", ...free });
  expect(answer.body).toEqual({ eventId: "e1", debits: [], uncovered: null });
  expect(await w.remaining()).toEqual([10]);
});

/** The digits of a JSON number, and the cents that are debited. */
const rounded: readonly (readonly [string, number])[] = [
  ["0.30000000000000004", 0.3],
  ["0.1000000000000000055511151231257827", 0.1],
  ["1e-7", 0.000001],
  ["5e-324", 0.000001],
  ["1e-400", 0.000001],
  ["0.0000010000001", 0.000002],
  ["1.0000000000000001", 1],
  ["2.5000001", 2.500001],
  ["-0", 0],
  ["0e5", 0],
];
it.each(rounded)(
  "a used quantity with more decimals than its unit is taken to 15 digits and then up to a step: %s cents are %s",
  async (digits, amount) => {
    const { post, userId, remaining } = await makeSpender([{ amountMinor: 1_000_000_000, unit: "cents" }]);
    const quantities = `{"count":0,"cents":${digits}}`;
    const body = (id: string) => `{${id},"userId":"${userId}","event":"x","quantities":${quantities}}`;
    const debits = amount === 0 ? [] : [{ amount }];
    expect((await post(EVENTS, body('"eventId":"e1"'))).body.debits).toMatchObject(debits);
    const held = await post("/api/v1/usage/reservations", body('"reservationId":"res_1"'));
    expect(held.body.holds).toMatchObject(debits);
    const commit = `{"eventId":"e2","quantities":${quantities}}`;
    expect((await post("/api/v1/usage/reservations/res_1/commit", commit)).body.debits).toMatchObject(debits);
    const plan = `{"userId":"${userId}","event":"x","quantities":${quantities}}`;
    expect((await post("/api/v1/credits/plan", plan)).body.debits).toMatchObject(debits);
    expect(await remaining()).toEqual([Math.round((1_000 - 2 * amount) * 1e6) / 1e6]);
  },
);

it("a used quantity with more decimals than its unit is rejected if it is negative or too large, and a given amount is not rounded", async () => {
  const { post, userId, ledger, app } = await makeSpender([wallet]);
  for (const digits of ["-1e-7", "-5e-324", "-1e-400", "1e21", "1e400", "1e999999999", "8589934592.00001"]) {
    const body = `{"eventId":"e1","userId":"${userId}","event":"x","quantities":{"cents":${digits}}}`;
    expectError(await post(EVENTS, body), "invalid_request", "quantities.cents");
  }
  await makeOpenAmountPack(app.appId, "Given", "cents");
  for (const digits of ["0.30000000000000004", "1e-7"]) {
    const grant = `{"userId":"${userId}","packId":"Given","quantity":${digits}}`;
    expectError(await post("/api/v1/credits/grant", grant), "invalid_quantity", "quantity");
  }
  expect(await ledger()).toHaveLength(1);
});
