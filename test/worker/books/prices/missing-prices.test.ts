import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { faultyD1 } from "../../../support/faulty-d1.ts";
import { makePricedSpender } from "../../../support/metered.ts";
import { expectError } from "../../../support/rejections.ts";
import { changeReservation } from "../../../support/spender.ts";
import { makeEndpoint, storedMessages } from "../../../support/webhooks.ts";

const DAY_MS = 86_400_000;

/** A spender whose price list has no price for most events, and an endpoint for some types of messages. */
async function missingWorld(types: readonly string[] = ["price.*"], bindings: Partial<Env> = {}) {
  const w = await makePricedSpender(undefined, bindings);
  await w.setPrices([{ model: "known", unit: "cents", per: { input: 0 } }]);
  const environment = w.app.environments.live;
  await makeEndpoint(environment, types);
  const use = (eventId: string, body: object = {}) =>
    w.spend(eventId, { event: "chat", model: "new", meters: { input: 1, none: 0 }, ...body });
  return { ...w, use, messages: () => storedMessages(environment) };
}

it("price.missing is sent once a day for each event and model, whatever call and isolate meets it", async () => {
  const w = await missingWorld();
  expectError(await w.use("e1"), "price_not_found");
  expectError(await w.use("e2", { meters: { output: 1 } }), "price_not_found");
  const other = w.inNewIsolate();
  const usage = { userId: w.userId, event: "chat", model: "new", meters: { input: 1 } };
  expectError(await other.reserve(usage), "price_not_found");
  await other.post("/api/v1/usage/events", [
    { ...usage, eventId: "e3" },
    { ...usage, eventId: "e4", model: undefined },
  ]);
  await other.reserve({ reservationId: "res_1", event: "chat", quantities: { cents: 1 } });
  const commit = { eventId: "e5", model: "third", meters: { input: 1, images: 2 } };
  expectError(await changeReservation(other, "res_1", "commit", commit), "price_not_found");
  const sent = (await w.messages()).map(({ type, data, deliveries }) => ({ type, data, deliveries }));
  const message = { type: "price.missing", deliveries: 1 };
  expect(sent).toHaveLength(3);
  expect(sent).toEqual(
    expect.arrayContaining([
      { ...message, data: { event: "chat", model: "new", meters: ["input"] } },
      { ...message, data: { event: "chat", model: null, meters: ["input"] } },
      { ...message, data: { event: "chat", model: "third", meters: ["input", "images"] } },
    ]),
  );
  w.clock.advance(DAY_MS);
  await w.use("e1");
  expect(await w.messages()).toHaveLength(4);
});

it("price.missing is not sent for plans and previews, nor without an endpoint that wants it, nor for a priced event", async () => {
  const w = await missingWorld(["credits.*"]);
  await w.use("e1");
  const other = await missingWorld();
  const usage = { event: "chat", model: "new", meters: { input: 1 } };
  expectError(await other.post("/api/v1/credits/plan", { userId: other.userId, ...usage }), "price_not_found");
  expectError(await other.post("/api/v1/usage/price", usage), "price_not_found");
  expect((await other.use("e1", { model: "known" })).status).toBe(200);
  expect([await w.messages(), await other.messages()]).toEqual([[], []]);
});

it("price.missing is sent for the first 100 events and models of a day", async () => {
  const w = await missingWorld();
  const usage = { userId: w.userId, event: "chat", meters: { input: 1 } };
  const models = Array.from({ length: 130 }, (_, n) => `m${n}`);
  for (const some of [models.slice(0, 70), models.slice(70)]) {
    const events = some.map((model) => ({ ...usage, eventId: model, model }));
    await w.inNewIsolate().post("/api/v1/usage/events", events);
  }
  expect(await w.messages()).toHaveLength(100);
});

it("price.missing changes nothing of the rejection if it cannot be written, and is written by the next one", async () => {
  vi.spyOn(console, "warn").mockReturnValue();
  const faulty = faultyD1(env.DB);
  const w = await missingWorld(["price.missing"], { DB: faulty.d1 });
  await w.use("warm", { model: "known" });
  for (const fault of ["before", "after"] as const) {
    faulty.plan({ fault, at: 2, persists: true });
    expectError(await w.use(fault), "price_not_found");
    faulty.plan({ fault, at: 1_000 });
    expectError(await w.use(fault), "price_not_found");
    expect(await w.messages()).toHaveLength(1);
  }
});
