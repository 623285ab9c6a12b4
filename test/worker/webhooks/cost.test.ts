import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { countingD1 } from "../../support/counting-d1.ts";
import { makeEndpoint } from "../../support/webhooks.ts";
import { Clock, makeApp, makeClient, makePack } from "../../support/world.ts";

/** The cost of a grant, of the first event after it, and of a second event. */
async function costs(types?: readonly string[]) {
  const { d1, spent } = countingD1(env.DB);
  const app = await makeApp();
  const call = makeClient(new Clock(), { DB: d1 });
  const packId = await makePack(app.appId, "Wallet", [{ amountMinor: 10_000_000, unit: "cents" }]);
  if (types !== undefined) await makeEndpoint(app.environments.live, types);
  const post = async (path: string, body: object) => {
    const answer = await call("POST", `/api/v1${path}`, { key: app.keys.sk_live, body: { userId: "u", ...body } });
    expect(answer.status).toBe(200);
    const { roundTrips, rowsWritten } = spent();
    return { roundTrips, rowsWritten };
  };
  spent();
  const grant = await post("/credits/grant", { packId });
  const spend = (eventId: string) => post("/usage/events", { eventId, event: "x", quantities: { count: 0, cents: 1 } });
  return { grant, first: await spend("e1"), second: await spend("e2") };
}

it("an endpoint adds no row and no trip to writes whose messages it does not receive", async () => {
  const none = await costs();
  expect(none.second.roundTrips).toBe(1);
  expect(await costs(["credits.revoked"])).toEqual(none);
});

it("a message and its delivery cost two rows each, and no trip", async () => {
  const none = await costs();
  const all = await costs(["usage.recorded"]);
  const more = ({ roundTrips, rowsWritten }: typeof none.first) => ({ roundTrips, rowsWritten: rowsWritten + 4 });
  expect(all).toEqual({ grant: none.grant, first: more(none.first), second: more(none.second) });
});
