import { afterAll, describe, expect, it } from "vitest";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { Clock, makeApp, makeClient, makePack } from "../support/world.ts";

afterAll(expectLedgerInvariants);

describe("the story of a pack", () => {
  it("is granted once, listed in spending order, revoked, and told in the ledger", async () => {
    const call = makeClient(new Clock());
    const app = await makeApp();
    const key = app.keys.sk_test;
    await makePack(app.appId, "Starter", [
      { amountSteps: 2_000_000, unit: "cents" },
      { amountSteps: 5_000, unit: "tokens", matches: [{ event: "chat.*" }] },
    ]);
    const body = { userId: "u1", packId: "STARTER", externalRef: "order-1" };

    const granted = await call("POST", "/api/v1/credits/grant", { key, body });
    expect(granted.status).toBe(200);
    const again = await call("POST", "/api/v1/credits/grant", { key, body });
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(again.body).toEqual(granted.body);

    const listed = await call("GET", "/api/v1/credits?userId=u1&event=chat.completed", { key });
    expect(listed.body.credits.map((credit: { unit: string }) => credit.unit)).toEqual(["tokens", "cents"]);

    const { balanceId } = granted.body;
    const revoked = await call("POST", "/api/v1/credits/revoke", { key, body: { balanceId, reason: "refunded" } });
    expect(revoked.body).toEqual({ balanceId, remaining: 0 });

    const told = await call("GET", `/api/v1/credits/history?userId=u1&balanceId=${balanceId}`, { key });
    expect(told.body.entries).toMatchObject([
      { delta: -2, reason: "admin_adjust", note: "refunded" },
      { delta: 2, reason: "grant", note: null },
    ]);
  });
});
