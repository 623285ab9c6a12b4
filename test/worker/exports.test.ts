import { afterAll, describe, expect, it } from "vitest";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { Clock, makeApp, makeClient, makePack } from "../support/world.ts";

afterAll(expectLedgerInvariants);

describe("the story of an export", () => {
  it("is minted with a secret key and opened with none", async () => {
    const call = makeClient(new Clock());
    const app = await makeApp();
    const key = app.keys.sk_live;
    await makePack(app.appId, "Starter", [{ amountSteps: 2_000_000, unit: "cents" }]);
    await call("POST", "/api/v1/credits/grant", { key, body: { userId: "u1", packId: "starter" } });
    const minted = await call("POST", "/api/v1/export-person", { key, body: { distinctId: "u1" } });
    expect(minted.status).toBe(200);
    const { status, body } = await call("GET", minted.body.downloadUrl);
    expect(status).toBe(200);
    expect(body.person.credits.balances).toMatchObject([{ remaining: 2 }]);
    expect(body.person.exports).toMatchObject([{ action: "minted" }, { action: "opened" }]);
  });
});
