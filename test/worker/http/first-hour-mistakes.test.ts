import { expect, it } from "vitest";
import { type Mistake, testMistakes } from "../../support/mistakes.ts";
import { expectError } from "../../support/rejections.ts";
import { Clock, makeApp, makeClient, makeOpenAmountPack, makePack } from "../../support/world.ts";

// Integrators make these mistakes in their first hour, out of habit from other services. Each message names what to write.

const FROM = "2026-11-01T00:00:00Z";

/** A rejected argument of a POST, or of a GET if there are no fields. */
const wrong = (path: string, fields: object | null, param: string, ...names: string[]): Mistake => ({
  name: fields === null ? path : `${param} of ${path}`,
  send: () => ({ path: `/api/v1/${path}`, ...(fields === null ? {} : { body: fields }) }),
  code: "invalid_request",
  param,
  names,
});
const wrongAdminField = (method: string, rest: string, body: object, param: string, ...names: string[]): Mistake => ({
  name: `${param} of ${method} ${rest}`,
  send: ({ app, adminToken }) => ({ method, path: `/api/v1/admin/apps/${app.appId}/${rest}`, key: adminToken, body }),
  code: "invalid_request",
  param,
  names,
});

const wrongGrantField = (fields: object, param: string, ...names: string[]) =>
  wrong("credits/grant", { userId: "ana", packId: "Wallet", ...fields }, param, ...names);
const wrongEventField = (fields: object, param: string, ...names: string[]) =>
  wrong("usage/events", { eventId: "e1", userId: "ana", event: "chat", ...fields }, param, ...names);
const wrongUnit = (unit: string, ...names: string[]) =>
  wrongEventField({ quantities: { [unit]: 5 } }, `quantities.${unit}`, "unknown", ...names);

testMistakes(
  "a wrong field of a grant is refused with the correction",
  [
    wrongGrantField({ email: "ana@example.com" }, "email", "`userId`"),
    wrongGrantField({ tokens: 100 }, "tokens", "`quantity`"),
    wrongGrantField({ quantity: 5, unit: "cents" }, "unit"),
    wrongGrantField({ expiresInDays: 30 }, "expiresInDays", "`expiresAt`"),
    wrongGrantField({ quantity: 0.1 + 0.2 - 1e-9 }, "quantity"),
  ].map((mistake) => (mistake.param === "quantity" ? { ...mistake, code: "invalid_quantity" as const } : mistake)),
);

testMistakes("a quantity under another service's name is refused with the right unit", [
  wrongUnit("input_tokens", "`tokens`"),
  wrongUnit("completionTokens", "`tokens`"),
  wrongUnit("total_tokens", "`tokens`"),
  wrongUnit("minutes", "`seconds`"),
  wrongUnit("durationMs", "`seconds`"),
  wrongUnit("usd", "`cents`"),
  wrongUnit("price", "`cents`"),
  wrongUnit("requests", "`count`"),
  wrongUnit("images", "`count`"),
  wrongUnit("characters", "`count`"),
]);

testMistakes("a wrong argument of usage is refused with the correction", [
  wrongEventField({ allowOverage: true }, "allowOverage", "`onShortage`"),
  wrongEventField({ dryRun: true }, "dryRun", "`POST /api/v1/credits/plan`"),
  wrongEventField({ occurredAt: Date.UTC(2026, 0, 1) }, "occurredAt"),
  wrong("usage/reservations", { userId: "ana", event: "chat", quantities: {}, eventId: "e" }, "eventId"),
  wrong("usage/reservations", { userId: "ana", event: "chat", quantities: {}, onShortage: "partial" }, "onShortage"),
  wrong("usage/reservations/res_none/commit", { eventId: "e", userId: "ana" }, "userId"),
  wrong(`usage?userId=ana&from=${FROM}&groupBy=week`, null, "groupBy"),
  wrong(`usage?userId=ana&from=${FROM}&groupBy=day,hour`, null, "groupBy"),
  wrong(`usage?userId=ana&from=${FROM}&groupBy=model,model`, null, "groupBy"),
  wrong("usage?userId=ana&groupBy=day", null, "from", "`groupBy`"),
  wrong(`usage?userId=ana&from=${FROM}&to=2026-10-01T00:00:00Z`, null, "to", "`from`"),
  wrong("usage/events?userId=ana&eventId=e", null, "eventId", "`userId`"),
  wrong("usage/events?userId=ana&cursor=AAAA", null, "cursor", "`nextCursor`"),
  {
    ...wrong("usage/events?eventId=none", null, "eventId"),
    code: "not_found",
  },
]);

testMistakes("a wrong argument of a refund or revoke is refused with the correction", [
  wrong("credits/refund", { balanceId: "crb_1", refundRef: "r" }, "balanceId", "`externalRef`"),
  wrong("credits/refund", { userId: "ana", externalRef: "o", refundRef: "r", share: 0.5 }, "share"),
  wrong("credits/revoke", { userId: "ana" }, "userId", "`GET /api/v1/credits`"),
  wrong("credits/revoke", { balanceId: "crb_1", amount: 5 }, "amount", "`POST /api/v1/credits/refund`"),
]);

const recurring = (fields: object, param: string, ...names: string[]) =>
  wrong("credits/recurring", { userId: "ana", packId: "Starter", ...fields }, param, ...names);

testMistakes("a wrong argument of a recurring grant is refused with the correction", [
  recurring({ interval: "month" }, "interval", "`every`"),
  recurring({ every: "monthly" }, "every"),
  recurring({ every: "month", startDate: FROM }, "startDate", "`startsAt`"),
  recurring({ every: "month", rollover: true }, "rollover", "`rolloverPeriods`"),
  recurring({ every: "month", recurringId: "sub_1" }, "recurringId", "`rec_`"),
]);

testMistakes("a wrong argument of administration is refused with the correction", [
  wrongAdminField("POST", "packs", { name: "Gold", items: [] }, "name", "`packName`"),
  wrongAdminField("POST", "packs", { packName: "G", items: [], price: 5 }, "price"),
  wrongAdminField("POST", "packs", { packName: "G", credits: 5, unit: "tokens" }, "credits", "`items`"),
  wrongAdminField(
    "POST",
    "packs",
    { packName: "G", items: [], expiresInDays: 5 },
    "expiresInDays",
    "`defaultExpiryDays`",
  ),
  wrongAdminField(
    "POST",
    "packs",
    { packName: "G", items: [{ amount: 5, unit: "tokens", matches: [{ events: ["chat"] }] }] },
    "items[0].matches[0].events",
    "`event`",
  ),
  wrongAdminField("POST", "alerts", { mode: "live", name: "L", unit: "tokens", threshold: 5 }, "threshold", "`below`"),
  wrongAdminField("POST", "alerts", { mode: "live", name: "L", unit: "tokens", below: 5 }, "below"),
  wrongAdminField(
    "POST",
    "alerts",
    { mode: "live", name: "L", unit: "tokens", below: { amount: 5, percent: 5 } },
    "below",
  ),
  wrongAdminField(
    "POST",
    "usage-limits",
    { mode: "live", name: "L", unit: "tokens", amount: 5, interval: "day" },
    "interval",
    "`every`",
  ),
  wrongAdminField(
    "POST",
    "usage-limits",
    { mode: "live", name: "L", unit: "tokens", max: 5, every: "day" },
    "max",
    "`amount`",
  ),
  wrongAdminField("POST", "webhooks", { mode: "live", url: "https://a.example", events: ["*"] }, "events", "`types`"),
  wrongAdminField(
    "POST",
    "webhooks",
    { mode: "live", url: "https://a.example", types: ["credit.low"] },
    "types[0]",
    "`credits.low`",
  ),
  wrongAdminField(
    "PUT",
    "end-user-auth",
    { mode: "live", setting: { type: "jwks", jwksUrl: "https://a.example" } },
    "setting.jwksUrl",
    "`url`",
  ),
  wrongAdminField("POST", "statements", { mode: "live", month: "2026-10-01" }, "month", "`2026-11`"),
  {
    ...wrongAdminField("POST", "", {}, "mode", "`modes`"),
    send: ({ adminToken }) => ({
      path: "/api/v1/admin/keys",
      key: adminToken,
      body: { name: "K", scopes: ["read"], mode: "live" },
    }),
  },
]);

const wrongPath = (method: string, path: string, code: Mistake["code"], ...names: string[]): Mistake => ({
  name: `${method} ${path}`,
  send: () => ({ method, path: `/api/v1/${path}`, ...(method === "POST" ? { body: {} } : {}) }),
  code,
  names,
});

testMistakes("a path of another service is refused with the right path", [
  wrongPath("POST", "usage", "method_not_allowed", "`/api/v1/usage/events`"),
  wrongPath("POST", "credits", "method_not_allowed", "`/api/v1/credits/grant`"),
  wrongPath("POST", "usage/reservations/res_1/capture", "not_found"),
  wrongPath("POST", "usage/reservations/res_1/cancel", "not_found"),
  wrongPath("POST", "credits/deduct", "not_found", "`/api/v1/usage/events`"),
]);

it("a rejection distinguishes a user without balances from one whose balances do not match, and lists the skipped ones", async () => {
  const { appId, keys } = await makeApp();
  const call = makeClient(new Clock());
  const use = () =>
    call("POST", "/api/v1/usage/events", {
      key: keys.sk_live,
      body: { eventId: "e1", userId: "ana", event: "chat", quantities: { tokens: 5 } },
    });
  const none = await use();
  expectError(none, "insufficient_credits");
  expect(none.body.error.message).toContain("no balance to spend in this mode: nothing was granted under this userId");
  await makePack(appId, "Pictures", [{ amountMinor: 3_000, unit: "seconds" }]);
  await call("POST", "/api/v1/credits/grant", { key: keys.sk_live, body: { userId: "ana", packId: "Pictures" } });
  const { error } = (await use()).body;
  expect(error.message).toContain("`details.skipped` says why");
  expect(error.details.skipped).toMatchObject([
    { packName: "Pictures", unit: "seconds", remaining: 3, reason: "wrong_unit" },
  ]);
});

it("a rejection of an unknown pack suggests a similar name, for recurring grants too", async () => {
  const { appId, keys } = await makeApp();
  const call = makeClient(new Clock());
  await makeOpenAmountPack(appId, "Top-up", "cents");
  for (const [path, more] of [
    ["grant", { quantity: 1 }],
    ["recurring", { quantity: 1, every: "month" }],
  ] as const) {
    const body = { userId: "ana", packId: "top up", ...more };
    const answer = await call("POST", `/api/v1/credits/${path}`, { key: keys.sk_live, body });
    expectError(answer, "credit_pack_not_found", "packId");
    expect(answer.body.error.message).toContain('Did you mean "Top-up"?');
  }
});
