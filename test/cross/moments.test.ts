import { env } from "cloudflare:workers";
import { afterAll, expect, it, vi } from "vitest";
import { commitInput } from "../../src/api/reservations/commit-reservation.ts";
import { reserveInput } from "../../src/api/reservations/create-reservation.ts";
import { eventInput } from "../../src/api/usage/usage-shapes.ts";
import { grantPack } from "../../src/books/credits/grant.ts";
import { revokeBalance } from "../../src/books/credits/revoke.ts";
import { commitReservation } from "../../src/books/usage/commit.ts";
import { recordEvent } from "../../src/books/usage/record-event.ts";
import { createReservation } from "../../src/books/usage/reserve.ts";
import { rejectionIn } from "../../src/errors.ts";
import { hookedD1 } from "../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { makeSpender } from "../support/spender.ts";
import { makeCtx, makeOpenAmountPack } from "../support/world.ts";

afterAll(expectLedgerInvariants);

/** A user with 10 cents that expire in 100 ms, and a clock that moves by 60 ms with every trip to D1. */
async function makeFastClockWorld() {
  const spender = await makeSpender([]);
  const { app, clock, userId } = spender;
  await makeOpenAmountPack(app.appId, "Brief", "cents");
  const expiresAt = new Date(clock.ms + 100).toISOString();
  await spender.post("/api/v1/credits/grant", { userId, packId: "Brief", quantity: 10, expiresAt });
  const d1 = hookedD1(env.DB, async () => clock.advance(60));
  const ctx = makeCtx(app.environments.live, clock, d1);
  const changes = async () =>
    (await spender.get(`/api/v1/credits/history?userId=${userId}`)).body.entries as {
      reason: string;
      occurredAt: string;
    }[];
  return { spender, ctx, expiresAt, changes };
}
const use = { event: "chat", quantities: { cents: 1 } };

it("a write during which the clock moves dates a debit when its balances were read, so that no ledger entry is after their expiry", async () => {
  const { spender, ctx, expiresAt, changes } = await makeFastClockWorld();
  spender.clock.advance(60);
  await recordEvent(ctx, eventInput.parse({ eventId: "e", userId: spender.userId, ...use }));
  const [debit] = await changes();
  expect(debit?.reason).toBe("event_committed");
  expect((debit?.occurredAt ?? "") < expiresAt).toBe(true);
});

it("a write during which the clock moves dates a hold and its commit when their balances were read", async () => {
  const { spender, ctx, expiresAt, changes } = await makeFastClockWorld();
  const { userId } = spender;
  spender.clock.advance(60);
  const before = spender.clock.ms;
  await createReservation(ctx, reserveInput.parse({ reservationId: "res_1", userId, ...use }));
  spender.clock.ms = before;
  const { eventId } = (
    await commitReservation(ctx, "res_1", commitInput.parse({ eventId: "e", quantities: use.quantities }))
  ).output;
  expect(eventId).toBe("e");
  const moved = (await changes()).slice(0, 3);
  expect(moved.map(({ reason }) => reason)).toEqual(["event_committed", "reservation_released", "reservation_held"]);
  for (const { occurredAt } of moved) expect(occurredAt < expiresAt).toBe(true);
});

it("a write that always conflicts returns 503 after a limited number of attempts, for a grant and a revoke", async () => {
  const pauses = vi.spyOn(scheduler, "wait").mockResolvedValue();
  const { app, clock, userId, balanceIds } = await makeSpender([{ amountMinor: 1_000, unit: "count" }]);
  await makeOpenAmountPack(app.appId, "Loose", "count");
  // Every other trip is a write, which fails because another request settled a reservation first.
  const conflictingCtx = () =>
    makeCtx(
      app.environments.live,
      clock,
      hookedD1(env.DB, async (trip) => {
        if (trip % 2 === 0) throw new Error("D1_ERROR: reservations_settled_once: SQLITE_CONSTRAINT");
        if (trip > 200) throw new Error("The attempts do not end.");
      }),
    );
  const code = (work: Promise<unknown>) => work.then(() => null).catch((error) => rejectionIn(error)?.code);
  const input = { userId, packId: "Loose", quantity: 1, source: "purchase" } as const;
  expect(await code(grantPack(conflictingCtx(), input))).toBe("temporarily_unavailable");
  expect(await code(revokeBalance(conflictingCtx(), { balanceId: balanceIds[0] ?? "" }))).toBe(
    "temporarily_unavailable",
  );
  pauses.mockRestore();
});
