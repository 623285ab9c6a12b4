import { afterAll, describe, expect, it } from "vitest";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { expectError } from "../support/refusals.ts";
import { makeSpender } from "../support/spender.ts";

afterAll(expectLedgerInvariants);

const EVENTS = "/api/v1/usage/events";
const wallet = { amountSteps: 10_000_000, unit: "cents" } as const;
const tokens = { amountSteps: 400_000, unit: "tokens", matches: [{ event: "chat.*" }] } as const;

describe("an event", () => {
  it("is paid by several balances, each its share in its own unit, and told in the ledger", async () => {
    const { spend, balanceIds, ledger, remaining } = await makeSpender([tokens, wallet]);
    const answer = await spend("e1", { quantities: { tokens: 1_200, cents: 3.6 } });
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      eventId: "e1",
      debits: [
        { balanceId: balanceIds[0], packId: expect.stringMatching(/^cpk_/), unit: "tokens", amount: 400, remaining: 0 },
        {
          balanceId: balanceIds[1],
          packId: expect.stringMatching(/^cpk_/),
          unit: "cents",
          amount: 2.4,
          remaining: 7.6,
        },
      ],
      uncovered: null,
    });
    expect(await remaining()).toEqual([0, 7.6]);
    expect((await ledger()).slice(0, 2)).toMatchObject([
      { balanceId: balanceIds[1], delta: -2.4, reason: "event_committed", eventId: "e1", reservationId: null },
      { balanceId: balanceIds[0], delta: -400, reason: "event_committed", eventId: "e1", reservationId: null },
    ]);
  });

  it("counts 1 when it says no quantity, and nothing when it says count 0", async () => {
    const { spend, remaining } = await makeSpender([{ amountSteps: 2_000, unit: "count" }]);
    expect((await spend("e1")).body.debits).toMatchObject([{ unit: "count", amount: 1, remaining: 1 }]);
    expect((await spend("e2", { quantities: { count: 0 } })).body).toEqual({
      eventId: "e2",
      debits: [],
      uncovered: null,
    });
    expect(await remaining()).toEqual([1]);
  });

  it("is refused with 402 when credits are short, leaves no trace, and may be tried again", async () => {
    const { spend, remaining, post, userId, ledger } = await makeSpender([wallet]);
    const short = await spend("e1", { quantities: { cents: 10.000001 } });
    expectError(short, "insufficient_credits");
    expect(short.body.error.details).toEqual({ uncovered: { count: 0.001, cents: 0.000001 } });
    expect(await remaining()).toEqual([10]);
    expect(await ledger()).toHaveLength(1);
    expect((await spend("e1", { quantities: { cents: 10 } })).status).toBe(200);
    expect(userId).not.toBe("");
    expect((await post(EVENTS, { eventId: "e9", userId: "nobody", event: "chat" })).status).toBe(402);
  });

  it("is recorded when short with partial, debits what there is, and says what is uncovered", async () => {
    const { spend, remaining } = await makeSpender([tokens]);
    const answer = await spend("e1", { quantities: { tokens: 1_000, cents: 5 }, onShortage: "partial" });
    expect(answer.body).toMatchObject({
      debits: [{ amount: 400, remaining: 0 }],
      uncovered: { count: 0.6, tokens: 600, cents: 3 },
    });
    const again = await spend("e1", { quantities: { tokens: 1_000, cents: 5 }, onShortage: "partial" });
    expect(again.body).toEqual(answer.body);
    expect(await remaining()).toEqual([0]);
  });

  it("answers a repeat as at first, and refuses another body under its id", async () => {
    const { spend, remaining } = await makeSpender([wallet]);
    const body = { quantities: { cents: 1 }, properties: { b: [1, { y: 1, x: 2 }], a: null } };
    const first = await spend("e1", body);
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    await spend("e2", { quantities: { cents: 1 } });
    const again = await spend("e1", { properties: { a: null, b: [1, { x: 2, y: 1 }] }, quantities: { cents: 1.0 } });
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(again.body).toEqual(first.body);
    expectError(await spend("e1", { quantities: { cents: 2 } }), "idempotency_conflict", "eventId");
    expectError(await spend("e1", { ...body, userId: "another" }), "idempotency_conflict", "eventId");
    expect(await remaining()).toEqual([8]);
  });
});
