import { expect, it } from "vitest";
import { type Mistake, type MistakenRequest, type MistakenWorld, testMistakes } from "../../support/mistakes.ts";
import { EVENTS, RESERVATIONS } from "../../support/paths.ts";
import { expectError } from "../../support/rejections.ts";
import { Clock, makeApp, makeClient, makePack } from "../../support/world.ts";

const GRANT = "/api/v1/credits/grant";
const use = { userId: "ana", event: "chat.completed" };

/** A mistake in an argument, which is rejected as `invalid_request`. */
const wrong = (name: string, send: Mistake["send"], param: string, ...names: string[]): Mistake => ({
  name,
  send,
  code: "invalid_request",
  param,
  names,
});

const wrongGrant = (name: string, fields: object, param: string, ...names: string[]): Mistake =>
  wrong(name, () => ({ path: GRANT, body: { userId: "ana", packId: "Starter", ...fields } }), param, ...names);
const wrongEvent = (name: string, fields: object, param: string, ...names: string[]): Mistake =>
  wrong(name, () => ({ path: EVENTS, body: { eventId: "e1", ...use, ...fields } }), param, ...names);
const wrongBody = (name: string, body: string, ...names: string[]): Mistake =>
  wrong(name, () => ({ path: GRANT, body }), "body", ...names);
const wrongAt =
  (method: string, rest: string) =>
  (name: string, body: object, param: string, ...names: string[]): Mistake =>
    wrong(
      name,
      ({ app, adminToken }) => ({ method, path: `/api/v1/admin/apps/${app.appId}${rest}`, key: adminToken, body }),
      param,
      ...names,
    );
const wrongPack = wrongAt("POST", "/packs");
const wrongKey = wrongAt("POST", "/keys");
const wrongSetting = wrongAt("PUT", "/end-user-auth");

testMistakes("a body that is not the expected JSON is refused with the correction", [
  wrongBody("an empty body", ""),
  wrongBody("a form", "userId=ana&packId=Starter"),
  wrongBody("a form of several parts", '--x\r\nContent-Disposition: form-data; name="userId"\r\n\r\nana\r\n--x--'),
  wrongBody("an object that was converted to a string", "[object Object]"),
  wrongBody("JSON that was encoded twice", JSON.stringify(JSON.stringify({ userId: "ana", packId: "Starter" }))),
  wrongBody("JSON with single quotes", "{'userId': 'ana'}"),
  wrongBody("names without quotes", "{userId: 1}"),
  wrongBody("a trailing comma", '{"userId": "ana", "packId": "Starter",}'),
  wrongBody("None as in Python", '{"userId": "ana", "expiresAt": None}'),
  wrongBody("undefined as a value", '{"userId": undefined}'),
  wrongBody("JSON with a comment", '{\n// the user\n"userId": "ana"}'),
  wrongBody("XML", "<grant><userId>ana</userId></grant>"),
  wrongBody("truncated JSON", '{"userId": "ana", "packId'),
  wrongBody("a list instead of an object", '[{"userId":"ana","packId":"Starter"}]'),
  wrongBody("null", "null"),
  wrong(
    "the arguments in the query string",
    () => ({ method: "POST", path: `${GRANT}?userId=ana&packId=Starter`, body: "" }),
    "body",
  ),
  wrong(
    "one argument in the query string",
    () => ({ path: `${GRANT}?userId=ana`, body: { packId: "Starter" } }),
    "userId",
  ),
  wrong("UTF-16", () => ({ path: GRANT, body: new Uint8Array([0xff, 0xfe, 0x7b, 0x00]) }), "body"),
]);

testMistakes("a body that cannot be read is refused with the reason", [
  wrong(
    "a compressed body",
    () => ({ path: GRANT, body: new Uint8Array([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]) }),
    "body",
  ),
  {
    name: "larger than 1 MiB",
    send: () => ({ path: EVENTS, body: " ".repeat(1024 * 1024 + 1) }),
    code: "payload_too_large",
    names: [],
  },
]);

testMistakes("a field with a wrong name is refused with the right name", [
  wrongGrant("a field in snake_case", { userId: undefined, user_id: "ana" }, "user_id", "`userId`"),
  wrongGrant("an optional field in snake_case", { external_ref: "r" }, "external_ref", "`externalRef`"),
  wrongGrant("a field in lower case", { externalref: "r" }, "externalref", "`externalRef`"),
  wrongGrant("a field in kebab-case", { "expires-at": null }, "expires-at", "`expiresAt`"),
  wrongGrant("a field with a missing letter", { externalRf: "r" }, "externalRf", "`externalRef`"),
  wrongGrant("customer", { userId: undefined, customer: "ana" }, "customer", "`userId`"),
  wrongGrant("idempotencyKey", { idempotencyKey: "r" }, "idempotencyKey", "`externalRef`"),
  wrongGrant("amount", { amount: 5 }, "amount", "`quantity`"),
  wrongGrant("metadata", { metadata: {} }, "metadata", "`notes`"),
  wrongGrant("pack", { packId: undefined, pack: "Starter" }, "pack", "`packId`"),
  wrong(
    "userId instead of distinctId",
    () => ({ path: "/api/v1/export-person", body: { userId: "ana" } }),
    "userId",
    "`distinctId`",
  ),
  wrong(
    "expiresAt for a reservation",
    () => ({ path: RESERVATIONS, body: { ...use, quantities: {}, expiresAt: "2027-01-01T00:00:00Z" } }),
    "expiresAt",
    "`expiresInSeconds`",
  ),
  wrongEvent(
    "PostHog's names",
    { eventId: undefined, userId: undefined, distinct_id: "ana", uuid: "e" },
    "distinct_id",
    "`userId`",
  ),
  wrong(
    "a grant inside another field, in snake_case",
    () => ({ path: GRANT, body: { grant: { user_id: "ana", pack_id: "Starter" } } }),
    "grant",
  ),
  wrongGrant("an unknown field like no other", { colour: "red" }, "colour", "`userId`", "`packId`"),
  wrongEvent("idempotencyKey for an event", { eventId: undefined, idempotencyKey: "e" }, "idempotencyKey", "`eventId`"),
  wrongEvent("timestamp", { timestamp: "2026-01-01T00:00:00Z" }, "timestamp", "`occurredAt`"),
  wrongEvent("a unit outside of quantities", { tokens: 5 }, "tokens", "`quantities`", "`tokens`"),
  wrongEvent("an amount outside of quantities", { amount: 5 }, "amount", "`quantities`"),
  wrongEvent(
    "a field inside of quantities",
    { quantities: { tokens: 5, model: "large" } },
    "quantities.model",
    "`model`",
  ),
  wrongEvent("an invalid unit", { quantities: { token: 5 } }, "quantities.token", "`tokens`"),
  wrongEvent("credits", { quantities: { credits: 5 } }, "quantities.credits"),
  wrongEvent(
    "an unknown unit like no other",
    { quantities: { parsecs: 5 } },
    "quantities.parsecs",
    "`count`",
    "`tokens`",
    "`seconds`",
    "`cents`",
  ),
  wrong(
    "a list inside another field",
    () => ({ path: EVENTS, body: { events: [{ eventId: "e", ...use }] } }),
    "events",
  ),
  wrong("an event inside another field", () => ({ path: EVENTS, body: { event: { eventId: "e", ...use } } }), "event"),
  wrong(
    "arguments inside another field",
    () => ({ path: GRANT, body: { data: { userId: "ana", packId: "Starter" } } }),
    "data",
  ),
  wrong(
    "a field for a call that has no fields",
    () => ({ path: `${RESERVATIONS}/res_1/release`, body: { reason: "x" } }),
    "reason",
  ),
  wrong(
    "a CloudEvent with the content type of JSON",
    () => ({ path: EVENTS, body: { specversion: "1.0", id: "e", source: "s", type: "t", subject: "ana" } }),
    "content-type",
    "`application/cloudevents+json`",
  ),
]);

testMistakes("a value of the wrong form is refused with the right form", [
  wrongGrant("a number as the user", { userId: 42 }, "userId"),
  wrongGrant("null as the user", { userId: null }, "userId"),
  wrongGrant("a list as the user", { userId: ["ana"] }, "userId"),
  wrongGrant("an object as the user", { userId: { id: "ana" } }, "userId"),
  wrongGrant("an empty user", { userId: "" }, "userId"),
  wrongGrant("a user with a line feed", { userId: "ana\n" }, "userId"),
  wrongGrant("a user of 201 characters", { userId: "a".repeat(201) }, "userId"),
  wrongGrant("an empty reference", { externalRef: "" }, "externalRef"),
  wrongGrant("a null reference", { externalRef: null }, "externalRef"),
  wrongGrant("a quantity as text", { packId: "Wallet", quantity: "5" }, "quantity"),
  wrongGrant("an invalid source", { source: "Purchased" }, "source"),
  wrongGrant("a source in capitals", { source: "REFUND" }, "source"),
  wrongGrant("a date without a time", { expiresAt: "2027-01-31" }, "expiresAt"),
  wrongGrant("a time without a zone", { expiresAt: "2027-01-31T12:00:00" }, "expiresAt"),
  wrongGrant("a Unix time", { expiresAt: 1_800_000_000 }, "expiresAt"),
  wrongGrant("a Unix time as text", { expiresAt: "1800000000" }, "expiresAt"),
  wrongGrant("a day that does not exist", { expiresAt: "2027-02-30T12:00:00Z" }, "expiresAt"),
  wrongGrant("a date in the format of JavaScript's Date", { expiresAt: "Sun Jan 31 2027 12:00:00 GMT" }, "expiresAt"),
  wrongGrant("an expiry in the past", { expiresAt: "2020-01-31T12:00:00Z" }, "expiresAt"),
  wrongEvent("null for an optional field", { occurredAt: null }, "occurredAt"),
  wrongEvent("null for a unit", { quantities: { tokens: null } }, "quantities.tokens"),
  wrong(
    "a number that a double cannot represent",
    () => ({ path: GRANT, body: '{"userId": 12345678901234567890123, "packId": "Starter"}' }),
    "userId",
  ),
  wrong(
    "a plain event with the content type of CloudEvents",
    () => ({
      path: EVENTS,
      body: { eventId: "e", ...use },
      headers: { "content-type": "application/cloudevents+json" },
    }),
    "content-type",
    "`application/json`",
  ),
  wrong(
    "a list of CloudEvents with the content type of one",
    () => ({
      path: EVENTS,
      body: [{ specversion: "1.0" }],
      headers: { "content-type": "application/cloudevents+json" },
    }),
    "body",
    "`application/cloudevents-batch+json`",
  ),
  wrongEvent("quantities as a number", { quantities: 5 }, "quantities"),
  wrongEvent("quantities as a list", { quantities: [{ tokens: 5 }] }, "quantities"),
  wrongEvent("tokens as text", { quantities: { tokens: "5" } }, "quantities.tokens"),
  wrongEvent("tokens below zero", { quantities: { tokens: -5 } }, "quantities.tokens"),
  wrongEvent("an amount above the maximum", { quantities: { cents: 1e12 } }, "quantities.cents"),
  wrongEvent("properties as text", { properties: '{"a":1}' }, "properties"),
  wrongEvent("properties as a list", { properties: [] }, "properties"),
  wrongEvent("an invalid onShortage", { onShortage: "partly" }, "onShortage"),
  wrongEvent("an event without an id", { eventId: undefined }, "eventId"),
  wrong("a list of 101 events", () => ({ path: EVENTS, body: Array.from({ length: 101 }, () => ({})) }), "body"),
  wrong(
    "a reservation of 0 seconds",
    () => ({ path: RESERVATIONS, body: { ...use, quantities: {}, expiresInSeconds: 0 } }),
    "expiresInSeconds",
  ),
  wrong(
    "a reservation of half a second",
    () => ({ path: RESERVATIONS, body: { ...use, quantities: {}, expiresInSeconds: 0.5 } }),
    "expiresInSeconds",
  ),
  wrong(
    "a reservation's duration as text",
    () => ({ path: RESERVATIONS, body: { ...use, quantities: {}, expiresInSeconds: "60" } }),
    "expiresInSeconds",
  ),
  wrong(
    "a reservation's id of another form",
    () => ({ path: RESERVATIONS, body: { ...use, quantities: {}, reservationId: "my-hold" } }),
    "reservationId",
    "`res_`",
  ),
  wrong(
    "an invalid decision",
    () => ({ path: "/api/v1/consent", body: { distinctId: "ana", purpose: "ads", decision: "grant" } }),
    "decision",
  ),
  wrong(
    "true as text",
    () => ({ path: "/api/v1/consent", body: { distinctId: "ana", purpose: "ads", decision: "denied", gpc: "true" } }),
    "gpc",
  ),
  wrong(
    "an empty id of the exported person",
    () => ({ path: "/api/v1/export-person", body: { distinctId: "" } }),
    "distinctId",
  ),
]);

const wrongRefund = (name: string, fields: object, param: string, ...names: string[]): Mistake => {
  const body = { userId: "ana", externalRef: "order-1", refundRef: "r1", ...fields };
  return wrong(name, () => ({ path: "/api/v1/credits/refund", body }), param, ...names);
};

testMistakes("a wrong refund is refused with the correction", [
  wrongRefund("refundId instead of refundRef", { refundRef: undefined, refundId: "r1" }, "refundId", "`refundRef`"),
  wrongRefund("an amount instead of a share", { amount: 500 }, "amount", "`share`"),
  wrongRefund("a part outside of share", { part: 1, of: 2 }, "part", "`share`", "`part`"),
  wrongRefund("a fraction as the share", { share: 0.5 }, "share"),
  wrongRefund("a share above 1", { share: { part: 2, of: 1 } }, "share", "`of`"),
  wrongRefund("a part as text", { share: { part: "1", of: 2 } }, "share.part"),
]);

const wrongQuery = (name: string, path: string, param: string, ...names: string[]): Mistake =>
  wrong(name, () => ({ path }), param, ...names);

testMistakes("a wrong query string is refused with the correction", [
  wrongQuery("no user", "/api/v1/credits", "userId"),
  wrongQuery("the user in snake_case", "/api/v1/credits?user_id=ana", "userId", "`user_id`"),
  wrongQuery("an empty user", "/api/v1/credits?userId=", "userId"),
  wrongQuery("the user twice", "/api/v1/credits?userId=ana&userId=bob", "userId"),
  wrongQuery("1 for true", "/api/v1/credits?userId=ana&includeExpired=1", "includeExpired", "`true`", "`false`"),
  wrongQuery("TRUE in upper case", "/api/v1/credits?userId=ana&includeExpired=TRUE", "includeExpired"),
  wrongQuery("a limit of 0", "/api/v1/credits/history?userId=ana&limit=0", "limit"),
  wrongQuery("a limit of 1000", "/api/v1/credits/history?userId=ana&limit=1000", "limit"),
  wrongQuery("a limit in words", "/api/v1/credits/history?userId=ana&limit=ten", "limit"),
  wrongQuery("a made-up cursor", "/api/v1/credits/history?userId=ana&cursor=2", "cursor", "`nextCursor`"),
  wrongQuery("an empty cursor", "/api/v1/credits/history?userId=ana&cursor=", "cursor"),
  wrongQuery("a date without a time", "/api/v1/usage?userId=ana&from=2026-01-01", "from"),
  wrongQuery(
    "an unescaped plus, which means a space",
    "/api/v1/usage?userId=ana&from=2026-01-01T00:00:00+01:00",
    "from",
  ),
  wrongQuery("invalid escapes", "/api/v1/credits?userId=%zz", "query"),
  wrong(
    "the arguments in the body of a GET",
    () => ({ path: "/api/v1/credits", headers: { "content-type": "application/json" } }),
    "userId",
  ),
  wrong(
    "a made-up bookmark",
    () => ({ path: "/api/v1/credits?userId=ana", headers: { "x-d1-bookmark": "latest" } }),
    "x-d1-bookmark",
  ),
]);

/** A request for an object that does not exist, or for an impossible quantity. */
const missing = (
  name: string,
  send: (world: MistakenWorld) => MistakenRequest,
  code: Mistake["code"],
  param: string,
  ...names: string[]
): Mistake => ({
  ...{ name, send, code, param, names },
});

testMistakes("a request for something that does not exist is refused with a suggestion", [
  missing(
    "a pack's name with a missing letter",
    () => ({ path: GRANT, body: { userId: "ana", packId: "Startr" } }),
    "credit_pack_not_found",
    "packId",
  ),
  missing(
    "a Stripe price instead of a pack",
    () => ({ path: GRANT, body: { userId: "ana", packId: "price_1PxQ" } }),
    "credit_pack_not_found",
    "packId",
  ),
  missing(
    "a pack's name with a space at its end",
    () => ({ path: GRANT, body: { userId: "ana", packId: "Starter " } }),
    "credit_pack_not_found",
    "packId",
  ),
  missing(
    "a pack's id that does not exist",
    () => ({ path: GRANT, body: { userId: "ana", packId: "cpk_7hWk3yB5nC0eUi9fMvS4Lx" } }),
    "credit_pack_not_found",
    "packId",
  ),
  missing(
    "a legacy pack without a quantity",
    () => ({ path: GRANT, body: { userId: "ana", packId: "Wallet" } }),
    "invalid_quantity",
    "quantity",
    "`cents`",
  ),
  missing(
    "a quantity of 0",
    () => ({ path: GRANT, body: { userId: "ana", packId: "Wallet", quantity: 0 } }),
    "invalid_quantity",
    "quantity",
  ),
  missing(
    "a quantity below 0",
    () => ({ path: GRANT, body: { userId: "ana", packId: "Wallet", quantity: -5 } }),
    "invalid_quantity",
    "quantity",
  ),
  missing(
    "a quantity with too many decimals",
    () => ({ path: GRANT, body: { userId: "ana", packId: "Wallet", quantity: 0.0000001 } }),
    "invalid_quantity",
    "quantity",
  ),
  missing(
    "a live balance with a test key",
    ({ balanceId, keys }) => ({ path: "/api/v1/credits/revoke", body: { balanceId }, key: keys.sk_test }),
    "credit_balance_not_found",
    "balanceId",
  ),
  missing(
    "a balance's id with a space",
    ({ balanceId }) => ({ path: "/api/v1/credits/revoke", body: { balanceId: ` ${balanceId}` } }),
    "credit_balance_not_found",
    "balanceId",
  ),
  missing(
    "a pack's id instead of a balance's",
    ({ packId }) => ({ path: "/api/v1/credits/revoke", body: { balanceId: packId } }),
    "credit_balance_not_found",
    "balanceId",
    "`crb_`",
  ),
  missing(
    "an unknown reservation",
    () => ({ path: `${RESERVATIONS}/res_none/commit`, body: { eventId: "e", quantities: {} } }),
    "reservation_not_found",
    "reservationId",
  ),
]);

testMistakes("a wrong argument of administration is refused with the correction", [
  wrongKey("an invalid mode", { kind: "secret", mode: "production" }, "mode"),
  wrongKey("a kind in capitals", { kind: "Secret", mode: "live" }, "kind"),
  wrongPack("a pack's name in snake_case", { pack_name: "P", items: [] }, "pack_name", "`packName`"),
  wrongPack("a pack without items and unit", { packName: "P", items: [] }, "unit"),
  wrongPack("a unit in the singular", { packName: "P", items: [{ amount: 1, unit: "token" }] }, "items[0].unit"),
  wrongPack("an amount of 0", { packName: "P", items: [{ amount: 0, unit: "tokens" }] }, "items[0].amount"),
  wrongPack(
    "rules as text",
    { packName: "P", items: [{ amount: 1, unit: "tokens", matches: "chat.*" }] },
    "items[0].matches",
  ),
  wrongPack(
    "globs instead of rules",
    { packName: "P", items: [{ amount: 1, unit: "tokens", matches: ["chat.*"] }] },
    "items[0].matches[0]",
    '`{ "event": "chat.*" }`',
  ),
  wrongPack(
    "an empty rule",
    { packName: "P", items: [{ amount: 1, unit: "tokens", matches: [{}] }] },
    "items[0].matches[0]",
  ),
  wrongPack("a name with a space at its end", { packName: "P ", items: [] }, "packName"),
  wrongSetting(
    "the type of a setting in capitals",
    { mode: "live", setting: { type: "JWKS", url: "https://a.example" } },
    "setting.type",
  ),
  wrongSetting(
    "a key server without TLS",
    { mode: "live", setting: { type: "jwks", url: "http://a.example" } },
    "setting.url",
  ),
  wrongSetting("a short secret", { mode: "live", setting: { type: "hs256", secret: "short" } }, "setting.secret"),
  wrongSetting(
    "a setting that is not inside `setting`",
    { mode: "live", type: "jwks", url: "https://a.example" },
    "type",
    "`setting`",
  ),
]);

it("an unknown query parameter is ignored, even include_expired, and a browser can read the request's id", async () => {
  const { keys } = await makeApp();
  const answer = await makeClient(new Clock())("GET", "/api/v1/credits?userId=u&include_expired=true", {
    key: keys.sk_live,
    headers: { origin: "https://shop.example" },
  });
  expect(answer.status).toBe(200);
  const refused = await makeClient(new Clock())("GET", "/api/v1/credits", {
    headers: { origin: "https://shop.example" },
  });
  for (const { headers } of [answer, refused]) {
    expect(headers.get("access-control-expose-headers")?.split(",")).toContain("x-request-id");
    expect(headers.get("access-control-allow-origin")).toBe("*");
  }
});

it("each wrong element of a list gets its own correction", async () => {
  const { keys } = await makeApp();
  const call = makeClient(new Clock());
  const elements = [{ ...use, event_id: "e" }, { eventId: "e", ...use, tokens: 5 }, "e", null];
  const answer = await call("POST", EVENTS, { key: keys.sk_live, body: elements });
  expect(answer.body.results.map((result: { error: { message: string } }) => result.error.message)).toEqual([
    "event_id is unknown: write `eventId`.",
    "tokens is unknown: write it into `quantities`, as `tokens`.",
    "body must be an object.",
    "body must be an object, not null.",
  ]);
  expectError(await call("POST", EVENTS, { key: keys.sk_live, body: "[" }), "invalid_request", "body");
});

it("another user's cursor is rejected, and the message says which cursor to send", async () => {
  const { keys, appId } = await makeApp();
  await makePack(appId, "Starter", [{ amountMinor: 1_000, unit: "tokens" }]);
  const call = makeClient(new Clock());
  const history = (wrongQuery: string) => call("GET", `/api/v1/credits/history?${wrongQuery}`, { key: keys.sk_live });
  for (const userId of ["ana", "ana", "bob", "bob"]) {
    await call("POST", GRANT, { key: keys.sk_live, body: { userId, packId: "Starter" } });
  }
  const { nextCursor } = (await history("userId=ana&limit=1")).body;
  const answer = await history(`userId=bob&limit=1&cursor=${nextCursor}`);
  expectError(answer, "invalid_request", "cursor");
  expect(answer.body.error.message).toContain("with all other arguments unchanged");
});
