import { afterAll, beforeEach, expect, it, vi } from "vitest";
import { DAY_MS, MINUTE_MS } from "../../../src/lib/time.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { clockWorld } from "../../support/test-clock.ts";

afterAll(expectLedgerInvariants);

// Retries do not wait.
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});

it("a balance whose month passes in one move of the clock is granted, announced seven days and one day before its expiry, expired and reported, each at its own time", async () => {
  const w = await clockWorld();
  await w.listen(["balance.*", "credits.*"]);
  expect((await w.admin("PUT", "/expiry-notices", { mode: "test", days: [7, 1] })).status).toBe(200);
  const balanceId = await w.grant({ expiresAt: w.at(30 * DAY_MS) });
  await w.move(31 * DAY_MS);
  expect((await w.messages()).map(({ type, at, data }) => [type, at, data.days ?? null])).toEqual([
    ["credits.granted", w.at(0), null],
    ["balance.expiring", w.at(23 * DAY_MS), 7],
    ["balance.expiring", w.at(29 * DAY_MS), 1],
    ["balance.expired", w.at(30 * DAY_MS), null],
    ["credits.depleted", w.at(30 * DAY_MS), null],
  ]);
  const listed = await w.callOk("GET", "/credits?userId=u&includeExpired=true");
  expect(listed.credits).toMatchObject([{ balanceId, status: "expired", remaining: 100, grantedAt: w.at(0) }]);
  const past = await w.callOk("GET", `/credits?userId=u&asOf=${encodeURIComponent(w.at(29 * DAY_MS))}`);
  expect(past.credits).toMatchObject([{ balanceId, status: "active" }]);
  expect((await w.admin("GET", "/clock")).body).toEqual({ now: w.at(31 * DAY_MS), status: "ready" });
  // The clock runs on from there.
  w.clock.advance(5 * MINUTE_MS);
  expect((await w.admin("GET", "/clock")).body).toEqual({ now: w.at(31 * DAY_MS + 5 * MINUTE_MS), status: "ready" });
});

it("changingCredits a clock returns and charges holds in the order of their ends, each at its own time", async () => {
  const w = await clockWorld();
  await w.listen();
  await w.grant();
  await w.reserve({ reservationId: "res_late", expiresInSeconds: 3_600 });
  await w.reserve({ reservationId: "res_charged", expiresInSeconds: 120, onExpiry: "charge" });
  await w.reserve({ reservationId: "res_soon", expiresInSeconds: 60 });
  await w.move(DAY_MS);
  const entries = (await w.ledger()).slice(4);
  expect(
    entries.map((entry: Record<string, unknown>) => [entry.reason, entry.reservationId, entry.occurredAt]),
  ).toEqual([
    ["reservation_expired", "res_soon", w.at(MINUTE_MS)],
    ["reservation_released", "res_charged", w.at(2 * MINUTE_MS)],
    ["event_committed", "res_charged", w.at(2 * MINUTE_MS)],
    ["reservation_expired", "res_late", w.at(60 * MINUTE_MS)],
  ]);
  const messages = (await w.messages()).filter(({ type }) => type !== "credits.granted");
  expect(messages.map(({ type, at }) => [type, at])).toEqual([
    ["reservation.expired", w.at(MINUTE_MS)],
    ["usage.recorded", w.at(2 * MINUTE_MS)],
    ["reservation.expired", w.at(60 * MINUTE_MS)],
  ]);
  expect((await w.callOk("GET", "/credits?userId=u")).credits).toMatchObject([{ remaining: 90 }]);
});
