import { expect, it } from "vitest";
import { Clock, makeApp, makeClient } from "../../support/world.ts";

it("exports the quantities of an event, and no other unit", async () => {
  const call = makeClient(new Clock());
  const app = await makeApp();
  const key = app.keys.sk_live;
  const event = { eventId: "e1", userId: "u1", event: "chat", quantities: { tokens: 1.5 }, onShortage: "partial" };
  await call("POST", "/api/v1/usage/events", { key, body: event });

  const minted = await call("POST", "/api/v1/export-person", { key, body: { distinctId: "u1" } });
  const { pathname, search } = new URL(minted.body.downloadUrl);
  const { body } = await call("GET", pathname + search);

  expect(body.events.metering).toHaveLength(1);
  expect(body.events.metering[0].quantities).toEqual({ count: 1, tokens: 1.5 });
  expect(body.events.metering[0].uncovered).toEqual({ count: 1, tokens: 1.5 });
});
