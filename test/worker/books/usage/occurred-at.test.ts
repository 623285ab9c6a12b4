import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { DAY_MS } from "../../../../src/lib/time.ts";
import { expectError } from "../../../support/rejections.ts";
import { Clock, makeApp, makeClient, makePack } from "../../../support/world.ts";

async function world() {
  const clock = new Clock();
  const { appId, keys } = await makeApp();
  await makePack(appId, "Pack", [{ amountMinor: 1_000_000, unit: "tokens" }]);
  const client = makeClient(clock);
  const call = (path: string, body: object, contentType = "application/json") =>
    client("POST", `/api/v1/${path}`, {
      key: keys.sk_live,
      body: body as never,
      headers: { "content-type": contentType },
    });
  await call("credits/grant", { userId: "u", packId: "Pack" });
  const at = (ms: number) => new Date(clock.ms + ms).toISOString();
  const stored = async () =>
    (
      await env.DB.prepare(
        "SELECT count(*) AS n FROM usage_events AS e JOIN environments AS v ON v.id = e.environment_id WHERE v.app_id = ?",
      )
        .bind(appId)
        .first<{ n: number }>()
    )?.n;
  return { call, at, stored };
}

const use = { userId: "u", event: "chat", quantities: { count: 0, tokens: 1 } };

it("accepts usage dated up to a day ahead, and rejects usage before 2000", async () => {
  const { call, at, stored } = await world();
  for (const [n, occurredAt] of [at(DAY_MS), at(-DAY_MS * 365), "2000-01-01T00:00:00Z"].entries()) {
    expect((await call("usage/events", { ...use, eventId: `e${n}`, occurredAt })).status).toBe(200);
  }
  const reserved = await call("usage/reservations", use);
  const commit = `usage/reservations/${reserved.body.reservationId}/commit`;
  for (const occurredAt of [
    at(DAY_MS + 1),
    "9999-01-01T00:00:00Z",
    "1999-12-31T23:59:59.999Z",
    "1970-01-01T00:00:00Z",
  ]) {
    expectError(await call("usage/events", { ...use, eventId: "e", occurredAt }), "invalid_request", "occurredAt");
    expectError(await call("credits/plan", { ...use, occurredAt }), "invalid_request", "occurredAt");
    expectError(
      await call(commit, { eventId: "e", quantities: use.quantities, occurredAt }),
      "invalid_request",
      "occurredAt",
    );
    const list = await call("usage/events", [{ ...use, eventId: "e", occurredAt }]);
    expect(list.body.results).toMatchObject([
      { eventId: "e", error: { code: "invalid_request", param: "occurredAt" } },
    ]);
    const cloud = { specversion: "1.0", id: "e", source: "/s", type: "chat", subject: "u", time: occurredAt };
    expectError(await call("usage/events", cloud, "application/cloudevents+json"), "invalid_request", "time");
  }
  expect(await stored()).toBe(3);
  expect((await call(commit, { eventId: "e", quantities: use.quantities, occurredAt: at(DAY_MS) })).status).toBe(200);
});
