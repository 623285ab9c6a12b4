import { afterAll, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { RESERVATIONS } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { cents, makeSpender, wallet } from "../../../support/spender.ts";

afterAll(expectLedgerInvariants);

/** Balances in the order of spending: one that does not match, one of another unit, two that pay, and one that does not match. */
const ITEMS = [
  { ...wallet, matches: [{ event: "image.*" }], priority: 1 },
  { amountMinor: 1_000, unit: "tokens", priority: 2 },
  { ...wallet, priority: 3 },
  { ...wallet, matches: [{ event: "chat.*" }], priority: 4 },
  { amountMinor: 1_000, unit: "tokens", matches: [{ event: "image.*" }], priority: 5 },
] as const;

const packName = expect.any(String);

const expectReasons = (details: object, ids: readonly string[], uncovered: object) =>
  expect(details).toEqual({
    ...{ uncovered, quantities: { count: 1, cents: 25 }, meters: null, priceVersion: null },
    skipped: [
      { balanceId: ids[2], packName, unit: "cents", remaining: 10, reason: "exhausted" },
      { balanceId: ids[3], packName, unit: "cents", remaining: 10, reason: "exhausted" },
      { balanceId: ids[1], packName, unit: "tokens", remaining: 1, reason: "wrong_unit" },
      { balanceId: ids[0], packName, unit: "cents", remaining: 10, reason: "no_match" },
      { balanceId: ids[4], packName, unit: "tokens", remaining: 1, reason: "no_match" },
    ],
  });

it("a rejection for insufficient credits shows why each active balance does not cover an event, an element of a list, or a reservation", async () => {
  const { spend, post, reserve, userId, balanceIds } = await makeSpender(ITEMS);
  const uncovered = { count: 0.2, cents: 5 };
  const event = await spend("e1", cents(25));
  expectError(event, "insufficient_credits");
  expectReasons(event.body.error.details, balanceIds, uncovered);
  const list = [{ eventId: "e2", userId, event: "chat.completed", ...cents(25) }];
  const { results } = (await post("/api/v1/usage/events", list)).body;
  expectReasons(results[0].error.details, balanceIds, uncovered);
  const answer = await reserve(cents(25));
  expectError(answer, "insufficient_credits");
  expectReasons(answer.body.error.details, balanceIds, uncovered);
});

it("a rejection for insufficient credits counts a commit's own holds and due holds as returned", async () => {
  const { reserve, post, balanceIds, clock } = await makeSpender(ITEMS);
  await reserve({ reservationId: "res_1", ...cents(10) });
  await reserve({ reservationId: "res_2", expiresInSeconds: 60, ...cents(10) });
  clock.advance(60_000);
  const answer = await post(`${RESERVATIONS}/res_1/commit`, { eventId: "e1", ...cents(25) });
  expectError(answer, "insufficient_credits");
  expectReasons(answer.body.error.details, balanceIds, { count: 0.2, cents: 5 });
});

it("a rejection for insufficient credits lists at most twenty balances, and no depleted one", async () => {
  const { spend } = await makeSpender([...Array(25).fill(wallet)]);
  expect((await spend("e1", cents(20))).status).toBe(200);
  const { details } = (await spend("e2", cents(1_000))).body.error;
  expect(details.skipped).toHaveLength(20);
  expect((await spend("e3", cents(215))).status).toBe(200);
  expect((await spend("e4", cents(20))).body.error.details.skipped).toHaveLength(2);
});

it("a rejection for insufficient credits says that nothing was granted if the user has no credits, and lists no balance", async () => {
  const { spend } = await makeSpender([]);
  const { error } = (await spend("e1", cents(1))).body;
  expect(error.message).toContain("nothing was granted under this userId");
  expect(error.details).toEqual({
    uncovered: { count: 1, cents: 1 },
    skipped: [],
    ...{ quantities: { count: 1, cents: 1 }, meters: null, priceVersion: null },
  });
});

const differs = (answer: { status: number; body: { error: { details: object } } }) => {
  expect(answer.status).toBe(409);
  return answer.body.error.details;
};

it("an idempotency conflict names the different fields of an event, for any order of keys and any notation of numbers", async () => {
  const { spend, post } = await makeSpender([wallet]);
  const first = { model: "large", ...cents(1), occurredAt: "2026-01-15T11:00:00Z", properties: { a: 1, б: "да" } };
  await spend("e1", first);
  const same = { ...first, occurredAt: "2026-01-15T12:00:00+01:00", properties: { б: "да", a: 1.0 } };
  expect((await spend("e1", same)).headers.get("idempotent-replayed")).toBe("true");
  const changes = {
    userId: "another",
    event: "image.made",
    model: "small",
    quantities: { cents: 2 },
    occurredAt: "2026-01-15T11:00:01Z",
    properties: { a: 1, б: "ад" },
    onShortage: "partial",
  };
  for (const [field, value] of Object.entries(changes)) {
    expect(differs(await spend("e1", { ...first, [field]: value }))).toEqual({ differs: [field] });
  }
  expect(differs(await spend("e1", changes))).toEqual({ differs: Object.keys(changes) });
  expect(differs(await spend("e1", { ...cents(1) }))).toEqual({ differs: ["model", "occurredAt", "properties"] });
  const list = [{ eventId: "e1", userId: "u", event: "x" }];
  const { results } = (await post("/api/v1/usage/events", list)).body;
  expect(results[0].error.details.differs).toContain("quantities");
});

it("an idempotency conflict names the different fields of a commit, even if the first request was an event", async () => {
  const { reserve, spend, post } = await makeSpender([wallet]);
  for (const id of ["res_1", "res_2"]) await reserve({ reservationId: id, ...cents(1) });
  const commit = (id: string, body: object) => post(`${RESERVATIONS}/${id}/commit`, { eventId: "e1", ...body });
  await commit("res_1", cents(1));
  expect(differs(await commit("res_1", { ...cents(2), properties: {} }))).toEqual({
    differs: ["quantities", "properties"],
  });
  expect(differs(await commit("res_2", cents(1)))).toEqual({ differs: [] });
  expect(differs(await spend("e1", cents(2)))).toEqual({ differs: ["quantities"] });
  await spend("e2", cents(1));
  const late = await post(`${RESERVATIONS}/res_2/commit`, { eventId: "e2", ...cents(1), onShortage: "partial" });
  expect(differs(late)).toEqual({ differs: ["onShortage"] });
});

it("an idempotency conflict names the different fields of a reservation", async () => {
  const { reserve } = await makeSpender([wallet]);
  await reserve({ reservationId: "res_1", expiresInSeconds: 60, ...cents(1) });
  const other = await reserve({ reservationId: "res_1", model: "large", ...cents(1) });
  expect(differs(other)).toEqual({ differs: ["model", "expiresInSeconds"] });
});
