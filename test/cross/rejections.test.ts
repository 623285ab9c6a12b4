import { afterAll, expect } from "vitest";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { describeRejections } from "../support/rejections.ts";
import { type Client, makePack, type TestApp } from "../support/world.ts";

afterAll(expectLedgerInvariants);

const items = [{ amountMinor: 5_000, unit: "tokens" }] as const;

async function grantToUser(call: Client, app: TestApp): Promise<string> {
  const packId = await makePack(app.appId, "Starter", items);
  const body = { userId: "u1", packId };
  return (await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body })).body.balanceId;
}

describeRejections("POST /api/v1/credits/grant", {
  prepare: async (_call, app) => ({
    method: "POST",
    path: "/api/v1/credits/grant",
    body: { userId: "u1", packId: await makePack(app.appId, "Starter", items) },
  }),
  publishable: "forbidden",
  stranger: "credit_pack_not_found",
  otherMode: (answer) => expect(answer.body.balances).toHaveLength(1),
});

describeRejections("POST /api/v1/credits/revoke", {
  prepare: async (call, app) => ({
    method: "POST",
    path: "/api/v1/credits/revoke",
    body: { balanceId: await grantToUser(call, app) },
  }),
  publishable: "forbidden",
  stranger: "credit_balance_not_found",
});

describeRejections("GET /api/v1/credits", {
  prepare: async (call, app) => {
    await grantToUser(call, app);
    return { method: "GET", path: "/api/v1/credits?userId=u1&includeExpired=true" };
  },
  publishable: "end-user",
  stranger: (answer) => expect(answer.body).toEqual({ credits: [] }),
});

describeRejections("GET /api/v1/credits/history", {
  prepare: async (call, app) => {
    await grantToUser(call, app);
    return { method: "GET", path: "/api/v1/credits/history?userId=u1" };
  },
  publishable: "requires_secret_key",
  stranger: (answer) => expect(answer.body).toEqual({ entries: [], nextCursor: null }),
});

describeRejections("GET /api/v1/credits/history of one balance", {
  prepare: async (call, app) => ({
    method: "GET",
    path: `/api/v1/credits/history?userId=u1&balanceId=${await grantToUser(call, app)}`,
  }),
  publishable: "requires_secret_key",
  stranger: "credit_balance_not_found",
});

async function erased(call: Client, app: TestApp): Promise<string> {
  const body = { distinctId: "u1" };
  return (await call("POST", "/api/v1/erase-person", { key: app.keys.sk_live, body })).body.erasureId;
}

describeRejections("POST /api/v1/erase-person", {
  prepare: async () => ({ method: "POST", path: "/api/v1/erase-person", body: { distinctId: "u1", dryRun: true } }),
  publishable: "forbidden",
  stranger: (answer) => expect(answer.body.distinctIds).toEqual(["u1"]),
});

describeRejections("GET /api/v1/erasures/{erasureId}", {
  prepare: async (call, app) => ({ method: "GET", path: `/api/v1/erasures/${await erased(call, app)}` }),
  publishable: "requires_secret_key",
  stranger: "not_found",
});

describeRejections("POST /api/v1/erasures/{erasureId}/lift", {
  prepare: async (call, app) => ({
    method: "POST",
    path: `/api/v1/erasures/${await erased(call, app)}/lift`,
    body: {},
  }),
  publishable: "forbidden",
  stranger: "not_found",
});
