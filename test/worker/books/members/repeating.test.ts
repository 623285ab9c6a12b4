import { afterAll, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { limitsWorld } from "../../../support/limits.ts";

afterAll(expectLedgerInvariants);

/** A payer "u" whose member "ada" is erased, after an event, a reservation and a commit. */
async function erasedWorld() {
  const world = await limitsWorld({ limits: [] });
  const { grant, event, hold, commit, callOk } = world;
  await grant("v");
  const first = { eventId: "e-first", memberId: "ada", model: "m", properties: { name: "Ada" } };
  const held = { reservationId: "res_first", memberId: "ada" };
  const answers = [await event(2, first), await hold(5, held), await commit("res_first", 3, { eventId: "e-commit" })];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(await callOk("POST", "/erase-person", { distinctId: "ada" })).toMatchObject({ status: "completed" });
  return { ...world, first, held, answers };
}

it("after an erasure of a member an equal event, reservation and commit are replays, and debit nothing", async () => {
  const { event, hold, commit, callOk, first, held, answers } = await erasedWorld();
  const history = await callOk("GET", "/credits/history?userId=u");
  const again = [await event(2, first), await hold(5, held), await commit("res_first", 3, { eventId: "e-commit" })];
  expect(again.map(({ headers }) => headers.get("idempotent-replayed"))).toEqual(["true", "true", "true"]);
  expect(again.map(({ body }) => body)).toEqual(answers.map(({ body }) => body));
  expect(await callOk("GET", "/credits/history?userId=u")).toEqual(history);
});

it.each([
  ["another payer", 2, { userId: "v" }],
  ["another amount", 3, {}],
  ["another event", 2, { event: "image" }],
  ["another model", 2, { model: "other" }],
  ["another time", 2, { occurredAt: "2026-01-01T00:00:00.000Z" }],
  ["further quantities", 2, { quantities: { count: 2, tokens: 1 } }],
])(
  "after an erasure of a member rejects an event with the id of one of the member's and %s, and debits nothing",
  async (_, count, fields) => {
    const { event, callOk, first } = await erasedWorld();
    const histories = () => Promise.all(["u", "v"].map((userId) => callOk("GET", `/credits/history?userId=${userId}`)));
    const before = await histories();
    const answer = await event(count, { ...first, ...fields });
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual([
      409,
      "idempotency_conflict",
      "eventId",
    ]);
    expect(await histories()).toEqual(before);
  },
);

it.each([
  ["another payer", 5, { userId: "v" }],
  ["another amount", 6, {}],
  ["another event", 5, { event: "image" }],
  ["another end", 5, { onExpiry: "charge" }],
])(
  "after an erasure of a member rejects a reservation with the id of one of the member's and %s",
  async (_, count, fields) => {
    const { hold, held } = await erasedWorld();
    const answer = await hold(count, { ...held, ...fields });
    expect([answer.status, answer.body.error.code]).toEqual([409, "idempotency_conflict"]);
  },
);

it("after an erasure of a member rejects a commit that differs, and an event with the commit's id", async () => {
  const { event, commit } = await erasedWorld();
  for (const answer of [
    await commit("res_first", 4, { eventId: "e-commit" }),
    await event(3, { eventId: "e-commit", memberId: "ada" }),
    await commit("res_first", 2, { eventId: "e-first", model: "m" }),
  ]) {
    expect([answer.status, answer.body.error.code]).toEqual([409, "idempotency_conflict"]);
  }
});
