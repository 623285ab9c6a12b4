import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import type { Unit } from "../../../../src/books/amounts/amount.ts";
import { adjustBalance } from "../../../../src/books/credits/adjust.ts";
import { releaseReservation } from "../../../../src/books/usage/release.ts";
import { rejectionIn } from "../../../../src/errors.ts";
import { faultyD1 } from "../../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { expectError } from "../../../support/rejections.ts";
import { type Answer, Clock, makeApp, makeClient, makeCtx, makeOpenAmountPack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const key = env.ADMIN_TOKEN;

/** A user with one balance, and calls on it. */
async function issue(unit: Unit, quantity: number, bindings: Partial<Env> = {}, expiresAt: string | null = null) {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock, bindings);
  await makeOpenAmountPack(app.appId, "Pack", unit);
  const secret = app.keys.sk_test;
  const body = { userId: "u1", packId: "pack", quantity, expiresAt };
  const { balanceId } = (await call("POST", "/api/v1/credits/grant", { key: secret, body })).body;
  return {
    app,
    clock,
    call,
    balanceId: balanceId as string,
    adjust: (delta: unknown, note: unknown = "why", more: object = {}): Promise<Answer> =>
      call("POST", `/api/v1/admin/balances/${balanceId}/adjust`, { key, body: { delta, note, ...more } }),
    entries: async () =>
      (await call("GET", "/api/v1/credits/history?userId=u1", { key: secret })).body.entries as {
        delta: number;
        reason: string;
        note: string | null;
      }[],
    revoke: () => call("POST", "/api/v1/credits/revoke", { key: secret, body: { balanceId } }),
    listed: async () =>
      (await call("GET", "/api/v1/credits?userId=u1&includeExpired=true", { key: secret })).body.credits[0],
  };
}

it("an adjustment adds and takes away exactly, with a ledger entry and its note", async () => {
  const balance = await issue("cents", 0.1);
  expect((await balance.adjust(0.2, "Sorry for the outage")).body).toEqual({
    balanceId: balance.balanceId,
    remaining: 0.3,
  });
  expect((await balance.adjust(-0.3)).body.remaining).toBe(0);
  expect((await balance.listed()).status).toBe("depleted");
  expect((await balance.adjust(1)).body.remaining).toBe(1);
  expect((await balance.listed()).status).toBe("active");
  expect(await balance.entries()).toMatchObject([
    { delta: 1, reason: "admin_adjust" },
    { delta: -0.3, reason: "admin_adjust" },
    { delta: 0.2, reason: "admin_adjust", note: "Sorry for the outage" },
    { delta: 0.1, reason: "grant" },
  ]);
});

it("an adjustment rejects an amount below 0", async () => {
  const balance = await issue("count", 5);
  expectError(await balance.adjust(-5.001), "invalid_quantity", "delta");
  expect(await balance.entries()).toHaveLength(1);
});

it("an adjustment rejects a revoked balance", async () => {
  const balance = await issue("count", 5);
  await balance.revoke();
  expectError(await balance.adjust(1), "invalid_request", "balanceId");
});

it("an adjustment adjusts an expired balance, which stays expired", async () => {
  const balance = await issue("count", 5, {}, "2026-01-15T12:00:01Z");
  balance.clock.advance(1_000);
  expect((await balance.adjust(2)).body.remaining).toBe(7);
  expect((await balance.listed()).status).toBe("expired");
});

it("an adjustment rejects amounts beyond the unit, 0 and text, and requires a note", async () => {
  const balance = await issue("count", 5);
  for (const delta of [0.0001, 0, 8_796_093_022_209, -8_796_093_022_209, "1", null, undefined]) {
    expectError(await balance.adjust(delta), "invalid_request", "delta");
  }
  for (const note of ["", null, "x".repeat(2_001), "a\u0000b"]) {
    expectError(await balance.adjust(1, note), "invalid_request", "note");
  }
  expect(await balance.entries()).toHaveLength(1);
});

it("an adjustment rejects more than a balance can hold, including its reserved credits", async () => {
  const balance = await issue("count", 8_796_093_022_207);
  expect((await balance.adjust(1)).body.remaining).toBe(8_796_093_022_208);
  expectError(await balance.adjust(0.001), "invalid_request", "delta");
  const { app, balanceId } = balance;
  const ctx = makeCtx(balance.app.environments.test, balance.clock);
  await adjustBalance(ctx, { balanceId, delta: -10, note: "as if reserved" });
  const legs = JSON.stringify([[1, 0, 10_000, 0]]);
  await env.DB.prepare(
    `INSERT INTO reservations (environment_id, id, account_id, reservation_number, event, quantities, legs, state, created_at_ms,
         expires_at_ms, request_hash)
       VALUES (CAST(?1 AS INTEGER), 'res_1', (SELECT id FROM accounts WHERE environment_id = ?1), 1, 'e', '{}', ?2, 'open', 0, 9000000000000, '')`,
  )
    .bind(app.environments.test.id, legs)
    .run();
  expectError(await balance.adjust(0.001), "invalid_request", "delta");
  await releaseReservation(ctx, "res_1");
  expect((await balance.adjust(-10)).status).toBe(200);
  expect((await balance.adjust(10)).body.remaining).toBe(8_796_093_022_208);
});

it("an adjustment applies each of thirty equal racing adjustments, as far as the balance goes", async () => {
  const balance = await issue("count", 20);
  const answers = await Promise.all(Array.from({ length: 30 }, () => balance.adjust(-1, "same")));
  const applied = answers.filter((answer) => answer.status === 200);
  expect(applied.map((answer) => answer.body.remaining).sort((a, b) => a - b)).toEqual([...Array(20).keys()]);
  for (const answer of answers) if (!applied.includes(answer)) expectError(answer, "invalid_quantity", "delta");
  expect(await balance.entries()).toHaveLength(21);
});

it("an adjustment takes effect once, whichever response is lost", async () => {
  const faulty = faultyD1(env.DB);
  const balance = await issue("count", 10, { DB: faulty.d1 });
  faulty.plan(null);
  await balance.adjust(-1);
  const trips = faulty.trips();
  for (let at = 1; at <= trips; at++) {
    faulty.plan({ fault: "after", at });
    expect((await balance.adjust(-1)).body.remaining).toBe(9 - at);
  }
  faulty.plan(null);
  expect(await balance.entries()).toHaveLength(2 + trips);
});

it("an adjustment under an id takes effect once: a repeat gets the first response, whatever happened in between", async () => {
  const balance = await issue("count", 10);
  const id = { adjustmentId: "adj_1" };
  const first = await balance.adjust(-4, "once", id);
  expect(first.headers.get("idempotent-replayed")).toBeNull();
  await balance.adjust(1);
  for (const isRevoked of [false, true]) {
    if (isRevoked) await balance.revoke();
    const again = await balance.adjust(-4, "once", id);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(again.body).toEqual(first.body);
  }
  expect(first.body).toEqual({ balanceId: balance.balanceId, remaining: 6 });
  expect((await balance.entries()).map(({ delta }) => delta)).toEqual([-7, 1, -4, 10]);
});

it("an adjustment under an id that another request used is a conflict, for the same balance or another", async () => {
  const balance = await issue("count", 10);
  const { app, call } = balance;
  const body = { userId: "u2", packId: "pack", quantity: 10 };
  const other = (await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_test, body })).body.balanceId;
  const id = { adjustmentId: "adj_1" };
  expect((await balance.adjust(-4, "once", id)).status).toBe(200);
  const differs = async (delta: number, note: string) => {
    const answer = await balance.adjust(delta, note, id);
    expectError(answer, "idempotency_conflict", "adjustmentId");
    return answer.body.error.details.differs;
  };
  expect(await differs(-5, "once")).toEqual(["delta"]);
  expect(await differs(-4, "twice")).toEqual(["note"]);
  const path = (balanceId: string) => `/api/v1/admin/balances/${balanceId}/adjust`;
  const same = { delta: -4, note: "once", ...id };
  expectError(await call("POST", path(other), { key, body: same }), "idempotency_conflict", "adjustmentId");
  expect(await balance.entries()).toHaveLength(2);
  // An id counts for one application in one mode.
  const inLive = await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body });
  const answer = await call("POST", path(inLive.body.balanceId), { key, body: same });
  expect([answer.status, answer.headers.get("idempotent-replayed"), answer.body.remaining]).toEqual([200, null, 6]);
});

it("an adjustment under an id may be repeated after a rejection, which stores nothing", async () => {
  const balance = await issue("count", 3);
  const id = { adjustmentId: "adj_1" };
  expectError(await balance.adjust(-4, "once", id), "invalid_quantity", "delta");
  await balance.adjust(1);
  const again = await balance.adjust(-4, "once", id);
  expect([again.headers.get("idempotent-replayed"), again.body.remaining]).toEqual([null, 0]);
  for (const adjustmentId of ["", "a\u0000b", "x".repeat(201), 5, null]) {
    expectError(await balance.adjust(1, "why", { adjustmentId }), "invalid_request", "adjustmentId");
  }
});

it("an adjustment under an id takes effect once when thirty equal ones race, and all responses but one are replays", async () => {
  const balance = await issue("count", 20);
  const answers = await Promise.all(
    Array.from({ length: 30 }, () => balance.adjust(-1, "same", { adjustmentId: "adj_race" })),
  );
  for (const { status, body } of answers) {
    expect([status, body]).toEqual([200, { balanceId: balance.balanceId, remaining: 19 }]);
  }
  expect(answers.filter(({ headers }) => headers.get("idempotent-replayed") === null)).toHaveLength(1);
  expect(await balance.entries()).toHaveLength(2);
});

it("an adjustment under an id takes effect once while thirty adjustments without an id race", async () => {
  const balance = await issue("count", 100);
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, index) =>
      balance.adjust(-1, "same", index % 2 === 0 ? { adjustmentId: "adj_race" } : {}),
    ),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array(60).fill(200));
  const raced = answers.filter((_, index) => index % 2 === 0);
  expect(new Set(raced.map(({ body }) => body.remaining)).size).toBe(1);
  expect((await balance.listed()).remaining).toBe(100 - 31);
});

it("an adjustment does not find a balance of another application or mode", async () => {
  const balance = await issue("count", 10);
  const strangers = [(await makeApp()).environments.test, balance.app.environments.live];
  for (const environment of strangers) {
    const ctx = makeCtx(environment, balance.clock);
    const rejection = await adjustBalance(ctx, { balanceId: balance.balanceId, delta: -1, note: "n" }).catch(
      rejectionIn,
    );
    expect(rejection).toMatchObject({ code: "credit_balance_not_found" });
  }
  expect(await balance.entries()).toHaveLength(1);
});
