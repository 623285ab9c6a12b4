import { afterAll, expect } from "vitest";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { USAGE } from "../../../support/paths.ts";
import { describeRejections } from "../../../support/rejections.ts";
import { type Client, makePack, type TestApp } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const quantities = { cents: 1 };

async function grantToUser(call: Client, app: TestApp): Promise<void> {
  const packId = await makePack(app.appId, "Wallet", [{ amountMinor: 5_000_000, unit: "cents" }]);
  await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body: { userId: "u1", packId } });
}

async function reserved(call: Client, app: TestApp): Promise<string> {
  await grantToUser(call, app);
  const body = { userId: "u1", event: "chat", quantities };
  return (await call("POST", `${USAGE}/reservations`, { key: app.keys.sk_live, body })).body.reservationId;
}

describeRejections("POST /api/v1/usage/events", {
  prepare: async (call, app) => {
    await grantToUser(call, app);
    return {
      method: "POST",
      path: `${USAGE}/events`,
      body: { eventId: "e1", userId: "u1", event: "chat", quantities },
    };
  },
  publishable: "forbidden",
  stranger: "insufficient_credits",
});

describeRejections("POST /api/v1/usage/reservations", {
  prepare: async (call, app) => {
    await grantToUser(call, app);
    return { method: "POST", path: `${USAGE}/reservations`, body: { userId: "u1", event: "chat", quantities } };
  },
  publishable: "forbidden",
  stranger: "insufficient_credits",
});

describeRejections("POST /api/v1/usage/reservations/{reservationId}/commit", {
  prepare: async (call, app) => ({
    method: "POST",
    path: `${USAGE}/reservations/${await reserved(call, app)}/commit`,
    body: { eventId: "e1", quantities },
  }),
  publishable: "forbidden",
  stranger: "reservation_not_found",
});

describeRejections("POST /api/v1/usage/reservations/{reservationId}/release", {
  prepare: async (call, app) => ({
    method: "POST",
    path: `${USAGE}/reservations/${await reserved(call, app)}/release`,
  }),
  publishable: "forbidden",
  stranger: "reservation_not_found",
});

describeRejections("POST /api/v1/usage/reservations/{reservationId}/extend", {
  prepare: async (call, app) => ({
    method: "POST",
    path: `${USAGE}/reservations/${await reserved(call, app)}/extend`,
    body: { expiresInSeconds: 600 },
  }),
  publishable: "forbidden",
  stranger: "reservation_not_found",
});

describeRejections("GET /api/v1/usage/reservations/{reservationId}", {
  prepare: async (call, app) => ({ method: "GET", path: `${USAGE}/reservations/${await reserved(call, app)}` }),
  publishable: "requires_secret_key",
  stranger: "reservation_not_found",
});

describeRejections("GET /api/v1/usage/reservations", {
  prepare: async (call, app) => {
    await reserved(call, app);
    return { method: "GET", path: `${USAGE}/reservations?userId=u1` };
  },
  publishable: "requires_secret_key",
  stranger: (answer) => expect(answer.body).toEqual({ reservations: [], nextCursor: null }),
});

describeRejections("POST /api/v1/credits/plan", {
  prepare: async (call, app) => {
    await grantToUser(call, app);
    return { method: "POST", path: "/api/v1/credits/plan", body: { userId: "u1", event: "chat", quantities } };
  },
  publishable: "forbidden",
  stranger: (answer) =>
    expect(answer.body).toMatchObject({ debits: [], uncovered: { count: 1, cents: 1 }, skipped: [], limits: [] }),
});

describeRejections("GET /api/v1/usage", {
  prepare: async (call, app) => {
    await grantToUser(call, app);
    const body = { eventId: "e1", userId: "u1", event: "chat", quantities };
    await call("POST", `${USAGE}/events`, { key: app.keys.sk_live, body });
    return { method: "GET", path: `${USAGE}?userId=u1` };
  },
  publishable: "end-user",
  stranger: (answer) => expect(answer.body).toEqual({ totals: [] }),
});
