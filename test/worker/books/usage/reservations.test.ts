import { afterAll, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { RESERVATIONS } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { cents, chatTokens, makeSpender, wallet } from "../../../support/spender.ts";

afterAll(expectLedgerInvariants);

const commitPath = (id: string) => `${RESERVATIONS}/${id}/commit`;
const releasePath = (id: string) => `${RESERVATIONS}/${id}/release`;

it("a reservation holds the maximum cost on several balances, with a ledger entry each", async () => {
  const { reserve, remaining, balanceIds, ledger, clock } = await makeSpender([chatTokens, wallet]);
  const { status, body } = await reserve({ quantities: { tokens: 1_200, cents: 3.6 }, expiresInSeconds: 60 });
  expect(status).toBe(200);
  expect(body).toEqual({
    reservationId: expect.stringMatching(/^res_[A-Za-z0-9]{22}$/),
    expiresAt: new Date(clock.ms + 60_000).toISOString(),
    holds: [
      { balanceId: balanceIds[0], packId: expect.any(String), unit: "tokens", amount: 400, remaining: 0 },
      { balanceId: balanceIds[1], packId: expect.any(String), unit: "cents", amount: 2.4, remaining: 7.6 },
    ],
  });
  expect(await remaining()).toEqual([0, 7.6]);
  const { reservationId } = body;
  expect((await ledger()).slice(0, 2)).toMatchObject([
    { delta: -2.4, reason: "reservation_held", reservationId, eventId: null },
    { delta: -400, reason: "reservation_held", reservationId, eventId: null },
  ]);
});

it("a reservation holds the whole amount or nothing", async () => {
  const { reserve, remaining } = await makeSpender([wallet]);
  const short = await reserve(cents(12));
  expectError(short, "insufficient_credits");
  expect(short.body.error.details.uncovered.cents).toBe(2);
  expect(await remaining()).toEqual([10]);
});

it("a reservation with the caller's own id is created once, and another body with it is rejected", async () => {
  const { reserve, remaining } = await makeSpender([wallet]);
  const reservationId = "res_my-Order_1";
  const first = await reserve({ reservationId, ...cents(3) });
  const again = await reserve({ reservationId, ...cents(3) });
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect(again.body).toEqual(first.body);
  expectError(await reserve({ reservationId, ...cents(4) }), "idempotency_conflict", "reservationId");
  expect(await remaining()).toEqual([7]);
});

it("a reservation is rejected with an invalid id, a duration out of bounds, or no quantities", async () => {
  const { reserve } = await makeSpender([wallet]);
  for (const reservationId of ["my-order", "res_", "res_a\nb", "res_\ud800", `res_${"a".repeat(201)}`, 7]) {
    expectError(await reserve({ reservationId, ...cents(1) }), "invalid_request", "reservationId");
  }
  for (const expiresInSeconds of [0, 86_401, 1.5, "60", null]) {
    expectError(await reserve({ expiresInSeconds, ...cents(1) }), "invalid_request", "expiresInSeconds");
  }
  expectError(await reserve({}), "invalid_request", "quantities");
  expect((await reserve({ expiresInSeconds: 86_400, ...cents(1) })).status).toBe(200);
});

it.each([
  ["less than", 2, 8],
  ["as much as", 5, 5],
  ["more than", 8, 2],
])("a commit of %s was held debits exactly the used amount", async (_name, used, left) => {
  const { reserve, post, remaining, ledger, balanceIds } = await makeSpender([wallet]);
  const { reservationId } = (await reserve(cents(5))).body;
  const answer = await post(commitPath(reservationId), { eventId: "e1", ...cents(used) });
  expect(answer.body).toEqual({
    eventId: "e1",
    debits: [{ balanceId: balanceIds[0], packId: expect.any(String), unit: "cents", amount: used, remaining: left }],
    uncovered: null,
  });
  expect(await remaining()).toEqual([left]);
  expect((await ledger()).slice(0, 2)).toMatchObject([
    { delta: -used, reason: "event_committed", eventId: "e1", reservationId },
    { delta: 5, reason: "reservation_released", eventId: null, reservationId },
  ]);
});

it("a commit is paid first by the held balances, with their whole remaining amount", async () => {
  const { reserve, post, remaining, spend } = await makeSpender([
    { ...wallet, priority: 1 },
    { ...wallet, priority: 2 },
  ]);
  await spend("e0", cents(8));
  const reservation = (await reserve({ reservationId: "res_1", ...cents(1) })).body;
  expect(reservation.holds).toHaveLength(1);
  await post("/api/v1/usage/reservations/res_1/commit", { eventId: "e1", ...cents(5) });
  expect(await remaining()).toEqual([0, 7]);

  const other = await makeSpender([
    { ...wallet, priority: 1 },
    { ...wallet, priority: 2 },
  ]);
  await other.reserve({ reservationId: "res_first", ...cents(10) });
  await other.reserve({ reservationId: "res_second", ...cents(4) });
  await other.post(releasePath("res_first"));
  await other.post(commitPath("res_second"), { eventId: "e1", ...cents(12) });
  expect(await other.remaining()).toEqual([8, 0]);
});

it("a commit that credits do not cover leaves the reservation open, and may be repeated or be partial", async () => {
  const { reserve, post, remaining } = await makeSpender([wallet]);
  const { reservationId } = (await reserve(cents(5))).body;
  expectError(await post(commitPath(reservationId), { eventId: "e1", ...cents(11) }), "insufficient_credits");
  expect(await remaining()).toEqual([5]);
  const partial = await post(commitPath(reservationId), { eventId: "e1", ...cents(20), onShortage: "partial" });
  expect(partial.body).toMatchObject({
    debits: [{ amount: 10, remaining: 0 }],
    uncovered: { count: 0.5, cents: 10 },
  });
  expect(await remaining()).toEqual([0]);
});

it("a commit repeated gets the first response; another body is a conflict, and another event finds it closed", async () => {
  const { reserve, post, spend, remaining } = await makeSpender([wallet]);
  const { reservationId } = (await reserve(cents(5))).body;
  const first = await post(commitPath(reservationId), { eventId: "e1", ...cents(2) });
  const again = await post(commitPath(reservationId), { eventId: "e1", ...cents(2) });
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect(again.body).toEqual(first.body);
  expectError(await post(commitPath(reservationId), { eventId: "e1", ...cents(3) }), "idempotency_conflict");
  expectError(await post(commitPath(reservationId), { eventId: "e2", ...cents(2) }), "reservation_closed");
  expectError(await post(releasePath(reservationId)), "reservation_closed");
  expectError(await spend("e1", cents(2)), "idempotency_conflict");
  expect(await remaining()).toEqual([8]);
});

it("a commit after the reservation expired counts once, as an ordinary event", async () => {
  for (const isReturnedBefore of [false, true]) {
    const { reserve, post, spend, clock, remaining, ledger } = await makeSpender([wallet]);
    const { reservationId } = (await reserve({ ...cents(5), expiresInSeconds: 60 })).body;
    clock.advance(60_000);
    if (isReturnedBefore) await spend("e0", cents(0));
    const late = await post(commitPath(reservationId), { eventId: "e1", ...cents(2) });
    expect(late.body.debits).toMatchObject([{ amount: 2, remaining: 8 }]);
    const again = await post(commitPath(reservationId), { eventId: "e1", ...cents(2) });
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expectError(await post(commitPath(reservationId), { eventId: "e2", ...cents(2) }), "reservation_closed");
    expectError(await post(releasePath(reservationId)), "reservation_closed");
    expect(
      (await ledger()).map((line) => line.reason).filter((reason) => reason === "reservation_expired"),
    ).toHaveLength(1);
    expect(await remaining()).toEqual([8]);
  }
});

it("a commit of an unknown reservation is not found", async () => {
  const { post } = await makeSpender([wallet]);
  expectError(await post(commitPath("res_nobody"), { eventId: "e1", ...cents(1) }), "reservation_not_found");
  expectError(await post(releasePath("res_nobody")), "reservation_not_found");
});

it("a release returns the holds once", async () => {
  const { reserve, post, remaining, balanceIds, ledger } = await makeSpender([chatTokens, wallet]);
  const { reservationId } = (await reserve({ quantities: { tokens: 1_200, cents: 3.6 } })).body;
  const first = await post(releasePath(reservationId));
  expect(first.body).toEqual({
    reservationId,
    status: "released",
    returned: [
      { balanceId: balanceIds[0], packId: expect.any(String), unit: "tokens", amount: 400 },
      { balanceId: balanceIds[1], packId: expect.any(String), unit: "cents", amount: 2.4 },
    ],
  });
  const again = await post(releasePath(reservationId));
  expect(again.status).toBe(200);
  expect(again.body).toEqual(first.body);
  expect(await remaining()).toEqual([400, 10]);
  expect(await ledger()).toHaveLength(6);
  expectError(await post(commitPath(reservationId), { eventId: "e1", ...cents(1) }), "reservation_closed");
});

it("a release after expiry answers that it expired, and returns the holds", async () => {
  const { reserve, post, remaining, clock } = await makeSpender([wallet]);
  const { reservationId } = (await reserve(cents(4))).body;
  clock.advance(300_000);
  for (const _ of [1, 2]) {
    expect((await post(releasePath(reservationId))).body).toMatchObject({
      status: "expired",
      returned: [{ amount: 4 }],
    });
    expect(await remaining()).toEqual([10]);
  }
});

it("a due hold returns with the user's next event, which may spend it, even if that event is rejected", async () => {
  const { reserve, spend, remaining, clock, ledger } = await makeSpender([wallet]);
  await reserve(cents(10));
  await spend("e0", cents(1));
  expect(await remaining()).toEqual([0]);
  clock.advance(300_000);
  expectError(await spend("e1", cents(11)), "insufficient_credits");
  expect(await remaining()).toEqual([10]);
  expect((await ledger())[0]).toMatchObject({ delta: 10, reason: "reservation_expired" });
  await reserve({ ...cents(10), reservationId: "res_2" });
  clock.advance(300_000);
  expect((await spend("e2", cents(9))).body.debits).toMatchObject([{ amount: 9, remaining: 1 }]);
});

it("a due hold returns with the next reservation, and with a replay", async () => {
  const { reserve, spend, remaining, clock } = await makeSpender([wallet]);
  await spend("e0", cents(1));
  await reserve({ reservationId: "res_1", ...cents(4) });
  await reserve({ reservationId: "res_2", ...cents(5) });
  clock.advance(300_000);
  expect((await reserve({ reservationId: "res_3", ...cents(9) })).status).toBe(200);
  expect(await remaining()).toEqual([0]);
  clock.advance(300_000);
  expect((await spend("e0", cents(1))).headers.get("idempotent-replayed")).toBe("true");
  expect(await remaining()).toEqual([9]);
});

it("a due hold of a revoked balance returns and is reversed with the revoke's note, each hold separately", async () => {
  const { reserve, spend, remaining, clock, ledger, post, balanceIds } = await makeSpender([wallet, chatTokens]);
  await reserve({ reservationId: "res_1", ...cents(4) });
  await reserve({ reservationId: "res_2", ...cents(5) });
  await post("/api/v1/credits/revoke", { balanceId: balanceIds[0], reason: "fraud" });
  clock.advance(300_000);
  await spend("e1", { quantities: { tokens: 1 } });
  expect((await ledger()).slice(1, 5).reverse()).toMatchObject([
    { delta: 4, reason: "reservation_expired", reservationId: "res_1", note: null },
    { delta: -4, reason: "admin_adjust", reservationId: "res_1", note: "fraud" },
    { delta: 5, reason: "reservation_expired", reservationId: "res_2", note: null },
    { delta: -5, reason: "admin_adjust", reservationId: "res_2", note: "fraud" },
  ]);
  expect(await remaining()).toEqual([0, 399]);
});

it("concurrently only 6 of 20 holds of 75 tokens on 500 succeed", async () => {
  const { reserve, remaining } = await makeSpender([{ amountMinor: 500_000, unit: "tokens" }]);
  const answers = await Promise.all(Array.from({ length: 20 }, () => reserve({ quantities: { tokens: 75 } })));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(6);
  expect(answers.filter(({ status }) => status === 402)).toHaveLength(14);
  expect(await remaining()).toEqual([50]);
});

it("concurrently commits, releases and the user's other writes settle a reservation once", async () => {
  const { reserve, post, spend, remaining, clock } = await makeSpender([wallet]);
  const { reservationId } = (await reserve(cents(5))).body;
  const answers = await Promise.all([
    ...Array.from({ length: 5 }, (_, index) => post(commitPath(reservationId), { eventId: `c${index}`, ...cents(1) })),
    ...Array.from({ length: 5 }, () => post(releasePath(reservationId))),
    ...Array.from({ length: 5 }, (_, index) => spend(`e${index}`, cents(0.5))),
  ]);
  const committed = answers.slice(0, 5).filter(({ status }) => status === 200).length;
  const released = answers.slice(5, 10).filter(({ status }) => status === 200).length;
  expect([
    [1, 0],
    [0, 5],
  ]).toContainEqual([committed, released]);
  expect(answers.slice(10).every(({ status }) => status === 200)).toBe(true);
  expect(await remaining()).toEqual([7.5 - committed]);

  const late = (await reserve(cents(5))).body.reservationId;
  clock.advance(300_000);
  const lateAnswers = await Promise.all(
    Array.from({ length: 10 }, (_, index) => post(commitPath(late), { eventId: `late${index}`, ...cents(1) })),
  );
  expect(lateAnswers.filter(({ status }) => status === 200)).toHaveLength(1);
  expect(await remaining()).toEqual([6.5 - committed]);
});
