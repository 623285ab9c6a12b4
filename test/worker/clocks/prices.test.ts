import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { deletePriceList, setPrices } from "../../../src/books/prices/change-prices.ts";
import { hookedD1 } from "../../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { clockWorld } from "../../support/test-clock.ts";
import { inTurn, makeAdminCtx } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/** A test environment whose prices change: a cent an event, and from the next day on two. */
async function pricedClock() {
  const w = await clockWorld({ pick: inTurn(3) });
  const set = async (perEvent: number, more: object = {}) => {
    const body = { mode: "test", rules: [{ unit: "tokens", perEvent }], ...more };
    const answer = await w.admin("PUT", "/prices", body);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer;
  };
  const inForce = async () => (await w.admin("GET", "/prices?mode=test")).body.inForce;
  const use = (eventId: string, more: object = {}) =>
    w.callOk("POST", "/usage/events", { eventId, userId: "u", event: "chat", meters: {}, ...more });
  await set(1);
  await set(2, { effectiveAt: w.at(DAY_MS) });
  await w.grant();
  return { ...w, set, inForce, use };
}

it("a scheduled version of prices takes force when a test clock reaches its time, and prices events by their own", async () => {
  const w = await pricedClock();
  expect(await w.use("e1")).toMatchObject({ quantities: { tokens: 1 }, priceVersion: 1 });
  await w.move(DAY_MS - 1);
  expect([await w.inForce(), (await w.use("e2")).priceVersion]).toEqual([1, 1]);
  // Real time passes too: the clock runs on.
  w.clock.advance(1);
  expect([await w.inForce(), (await w.use("e3")).priceVersion]).toEqual([2, 2]);
  await w.move(3 * DAY_MS);
  expect(await w.use("e4", { occurredAt: w.at(HOUR_MS) })).toMatchObject({
    quantities: { tokens: 1 },
    priceVersion: 1,
  });
  expect(await w.use("e5")).toMatchObject({ quantities: { tokens: 2 }, priceVersion: 2 });
  // A version in force by this clock cannot be deleted, and one before its time cannot be made.
  expect((await w.admin("DELETE", "/prices/2?mode=test")).status).toBe(400);
  const late = await w.admin("PUT", "/prices", { mode: "test", rules: [], effectiveAt: w.at(2 * DAY_MS) });
  expect([late.status, late.body.error.param]).toEqual([400, "effectiveAt"]);
  expect((await w.set(3)).body.effectiveAt).toBe(w.at(3 * DAY_MS));
});

it("a hold that a test clock charges is priced by the version in force when it was made, whatever it passes", async () => {
  const w = await pricedClock();
  for (const onExpiry of ["charge", "return"]) {
    await w.reserve({ reservationId: `res_${onExpiry}`, event: "chat", quantities: undefined, meters: {}, onExpiry });
  }
  await w.move(2 * DAY_MS);
  const charged = await w.callOk("GET", "/usage/events?eventId=res_charge");
  expect(charged).toMatchObject({ quantities: { tokens: 1 }, priceVersion: 1, meters: {} });
  const late = { eventId: "late", meters: {} };
  expect(await w.callOk("POST", "/usage/reservations/res_return/commit", late)).toMatchObject({ priceVersion: 1 });
});

it("the prices of live use are those of real time, whatever the test clock says", async () => {
  const w = await pricedClock();
  await w.admin("PUT", "/prices", { mode: "live", rules: [{ unit: "tokens", perEvent: 5 }] });
  const later = { mode: "live", rules: [{ unit: "tokens", perEvent: 6 }], effectiveAt: w.at(DAY_MS) };
  expect((await w.admin("PUT", "/prices", later)).status).toBe(200);
  await w.move(2 * DAY_MS);
  const price = () => w.callOk("POST", "/usage/price", { event: "chat", meters: {} }, w.app.keys.sk_live);
  expect(await price()).toMatchObject({ quantities: { tokens: 5 }, priceVersion: 1 });
  w.clock.advance(DAY_MS);
  expect(await price()).toMatchObject({ quantities: { tokens: 6 }, priceVersion: 2 });
});

it("price.missing is sent once for each day of a test clock", async () => {
  const w = await pricedClock();
  await w.listen(["price.missing"]);
  await w.move(DAY_MS);
  const miss = async () => {
    const body = { eventId: "e1", userId: "u", event: "chat", meters: {} };
    await w.admin("PUT", "/prices", { mode: "test", rules: [] });
    const answer = await w.call("POST", "/api/v1/usage/events", { key: w.app.keys.sk_test, body });
    expect(answer.status).toBe(404);
    return (await w.messages()).map(({ at }) => at);
  };
  expect(await miss()).toEqual([w.at(DAY_MS)]);
  await w.move(DAY_MS + HOUR_MS);
  expect(await miss()).toEqual([w.at(DAY_MS)]);
  await w.move(2 * DAY_MS);
  expect(await miss()).toEqual([w.at(DAY_MS), w.at(2 * DAY_MS)]);
});

it.each([2, 3])(
  "a version of prices takes force at the time of a test clock that was moved before trip %i",
  async (nth) => {
    const w = await pricedClock();
    const d1 = hookedD1(env.DB, async (trip) => {
      if (trip === nth) await w.move(2 * DAY_MS);
    });
    const rules = [{ unit: "tokens" as const, perEvent: 3 }];
    const made = await setPrices(makeAdminCtx(w.clock, d1), w.app.appId, {
      mode: "test",
      rules,
      costs: [],
      note: null,
    });
    expect(made).toMatchObject({ version: 3, effectiveAt: w.at(2 * DAY_MS) });
    expect(await w.inForce()).toBe(3);
  },
);

it("a version of prices is not deleted if a test clock reached its time meanwhile", async () => {
  const w = await pricedClock();
  const d1 = hookedD1(env.DB, async (trip) => {
    if (trip === 2) await w.move(2 * DAY_MS);
  });
  const deleted = deletePriceList(makeAdminCtx(w.clock, d1), w.app.appId, "test", 2);
  await expect(deleted).rejects.toMatchObject({ code: "invalid_request", param: "version" });
  expect(await w.inForce()).toBe(2);
});
