import { expect, it } from "vitest";
import { describeMistakes, type Mistake, type MistakenRequest, type MistakenWorld } from "../../support/mistakes.ts";
import { EVENTS, RESERVATIONS } from "../../support/paths.ts";
import { expectError } from "../../support/refusals.ts";
import { Clock, makeApp, makeClient, makePack } from "../../support/world.ts";

const GRANT = "/api/v1/credits/grant";
const use = { userId: "ana", event: "chat.completed" };

/** A mistake in an argument, which is refused as `invalid_request`. */
const wrong = (name: string, send: Mistake["send"], param: string, ...says: string[]): Mistake => ({
  name,
  send,
  code: "invalid_request",
  param,
  says,
});

const wrongGrant = (name: string, fields: object, param: string, ...says: string[]): Mistake =>
  wrong(name, () => ({ path: GRANT, body: { userId: "ana", packId: "Starter", ...fields } }), param, ...says);
const wrongEvent = (name: string, fields: object, param: string, ...says: string[]): Mistake =>
  wrong(name, () => ({ path: EVENTS, body: { eventId: "e1", ...use, ...fields } }), param, ...says);
const wrongBody = (name: string, body: string, ...says: string[]): Mistake =>
  wrong(name, () => ({ path: GRANT, body }), "body", ...says);
const wrongAdministration = (
  name: string,
  rest: string,
  method: string,
  body: object,
  param: string,
  ...says: string[]
): Mistake =>
  wrong(
    name,
    ({ app, adminToken }) => ({ method, path: `/api/v1/admin/apps/${app.appId}${rest}`, key: adminToken, body }),
    param,
    ...says,
  );

describeMistakes("a body that is not the expected JSON is refused with the correction", [
  wrongBody("an empty body", "", "empty", "JSON object"),
  wrongBody("a form", "userId=ana&packId=Starter", "a form, not JSON", "application/json"),
  wrongBody(
    "a form of several parts",
    '--x\r\nContent-Disposition: form-data; name="userId"\r\n\r\nana\r\n--x--',
    "a form",
  ),
  wrongBody("an object that was converted to a string", "[object Object]", "JSON.stringify"),
  wrongBody(
    "JSON that was encoded twice",
    JSON.stringify(JSON.stringify({ userId: "ana", packId: "Starter" })),
    "not a string that holds JSON",
  ),
  wrongBody("JSON with single quotes", "{'userId': 'ana'}", "double quotes"),
  wrongBody("names without quotes", "{userId: 1}", "names have double quotes"),
  wrongBody("a trailing comma", '{"userId": "ana", "packId": "Starter",}', "no comma"),
  wrongBody("None as in Python", '{"userId": "ana", "expiresAt": None}', "null"),
  wrongBody("undefined as a value", '{"userId": undefined}', "null"),
  wrongBody("JSON with a comment", '{\n// the user\n"userId": "ana"}', "comments"),
  wrongBody("XML", "<grant><userId>ana</userId></grant>", "not valid JSON"),
  wrongBody("truncated JSON", '{"userId": "ana", "packId', "not valid JSON"),
  wrongBody("a list instead of an object", '[{"userId":"ana","packId":"Starter"}]', "must be an object, not a list"),
  wrongBody("null", "null", "must be an object, not null"),
  wrong(
    "the arguments in the query string",
    () => ({ method: "POST", path: `${GRANT}?userId=ana&packId=Starter`, body: "" }),
    "body",
    "empty",
    "in the body",
  ),
  wrong(
    "one argument in the query string",
    () => ({ path: `${GRANT}?userId=ana`, body: { packId: "Starter" } }),
    "userId",
    "in the body",
  ),
  wrong("UTF-16", () => ({ path: GRANT, body: new Uint8Array([0xff, 0xfe, 0x7b, 0x00]) }), "body", "UTF-8"),
]);

describeMistakes("a body that cannot be read is refused with the reason", [
  wrong(
    "a compressed body",
    () => ({ path: GRANT, body: new Uint8Array([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]) }),
    "body",
    "compressed",
    "plain JSON",
  ),
  {
    name: "larger than 1 MiB",
    send: () => ({ path: EVENTS, body: " ".repeat(1024 * 1024 + 1) }),
    code: "payload_too_large",
    says: ["1 MiB", "Send less at once"],
  },
]);

describeMistakes("a field with a wrong name is refused with the right name", [
  wrongGrant("a field in snake_case", { userId: undefined, user_id: "ana" }, "user_id", "unknown", "write `userId`"),
  wrongGrant("an optional field in snake_case", { external_ref: "r" }, "external_ref", "write `externalRef`"),
  wrongGrant("a field in lower case", { externalref: "r" }, "externalref", "write `externalRef`"),
  wrongGrant("a field in kebab-case", { "expires-at": null }, "expires-at", "write `expiresAt`"),
  wrongGrant("a field with a missing letter", { externalRf: "r" }, "externalRf", "the fields are", "`externalRef`"),
  wrongGrant("customer", { userId: undefined, customer: "ana" }, "customer", "write `userId`"),
  wrongGrant("idempotencyKey", { idempotencyKey: "r" }, "idempotencyKey", "write `externalRef`"),
  wrongGrant("amount", { amount: 5 }, "amount", "write `quantity`"),
  wrongGrant("metadata", { metadata: {} }, "metadata", "write `notes`"),
  wrongGrant("pack", { packId: undefined, pack: "Starter" }, "pack", "write `packId`"),
  wrong(
    "userId instead of distinctId",
    () => ({ path: "/api/v1/export-person", body: { userId: "ana" } }),
    "userId",
    "write `distinctId`",
  ),
  wrong(
    "expiresAt for a reservation",
    () => ({ path: RESERVATIONS, body: { ...use, quantities: {}, expiresAt: "2027-01-01T00:00:00Z" } }),
    "expiresAt",
    "write `expiresInSeconds`",
  ),
  wrongEvent(
    "PostHog's names",
    { eventId: undefined, userId: undefined, distinct_id: "ana", uuid: "e" },
    "distinct_id",
    "write `userId`",
  ),
  wrong(
    "a grant inside another field, in snake_case",
    () => ({ path: GRANT, body: { grant: { user_id: "ana", pack_id: "Starter" } } }),
    "grant",
    "send the fields in it directly, without this field around them",
  ),
  wrongGrant("an unknown field like no other", { colour: "red" }, "colour", "the fields are `userId`, `packId`"),
  wrongEvent(
    "idempotencyKey for an event",
    { eventId: undefined, idempotencyKey: "e" },
    "idempotencyKey",
    "write `eventId`",
  ),
  wrongEvent("timestamp", { timestamp: "2026-01-01T00:00:00Z" }, "timestamp", "write `occurredAt`"),
  wrongEvent("a unit outside of quantities", { tokens: 5 }, "tokens", "into `quantities`, as `tokens`"),
  wrongEvent("an amount outside of quantities", { amount: 5 }, "amount", "write `quantities`"),
  wrongEvent(
    "a field inside of quantities",
    { quantities: { tokens: 5, model: "large" } },
    "quantities.model",
    "at the top level, as `model`",
  ),
  wrongEvent("an invalid unit", { quantities: { token: 5 } }, "quantities.token", "write `tokens`"),
  wrongEvent("credits", { quantities: { credits: 5 } }, "quantities.credits", "name the unit of the packs that pay"),
  wrongEvent(
    "an unknown unit like no other",
    { quantities: { parsecs: 5 } },
    "quantities.parsecs",
    "`count`, `tokens`, `seconds`, `cents`",
  ),
  wrong(
    "a list inside another field",
    () => ({ path: EVENTS, body: { events: [{ eventId: "e", ...use }] } }),
    "events",
    "send the fields in it directly, without this field around them",
  ),
  wrong(
    "an event inside another field",
    () => ({ path: EVENTS, body: { event: { eventId: "e", ...use } } }),
    "event",
    "must be a string, not an object",
  ),
  wrong(
    "arguments inside another field",
    () => ({ path: GRANT, body: { data: { userId: "ana", packId: "Starter" } } }),
    "data",
    "send the fields in it directly",
  ),
  wrong(
    "a field for a call that has no fields",
    () => ({ path: `${RESERVATIONS}/res_1/release`, body: { reason: "x" } }),
    "reason",
    "no fields",
  ),
  wrong(
    "a CloudEvent with the content type of JSON",
    () => ({ path: EVENTS, body: { specversion: "1.0", id: "e", source: "s", type: "t", subject: "ana" } }),
    "content-type",
    "`application/cloudevents+json`",
  ),
]);

describeMistakes("a value of the wrong form is refused with the right form", [
  wrongGrant("a number as the user", { userId: 42 }, "userId", "must be a string, in quotes"),
  wrongGrant("null as the user", { userId: null }, "userId", "must be a string, not null"),
  wrongGrant("a list as the user", { userId: ["ana"] }, "userId", "must be a string, not a list"),
  wrongGrant("an object as the user", { userId: { id: "ana" } }, "userId", "must be a string, not an object"),
  wrongGrant("an empty user", { userId: "" }, "userId", "must not be empty"),
  wrongGrant("a user with a line feed", { userId: "ana\n" }, "userId", "control characters"),
  wrongGrant("a user of 201 characters", { userId: "a".repeat(201) }, "userId", "at most 200"),
  wrongGrant("an empty reference", { externalRef: "" }, "externalRef", "must not be empty"),
  wrongGrant("a null reference", { externalRef: null }, "externalRef", "must be a string, not null"),
  wrongGrant("a quantity as text", { packId: "Wallet", quantity: "5" }, "quantity", "must be a number, without quotes"),
  wrongGrant("an invalid source", { source: "Purchased" }, "source", "purchase or grant or refund or manual"),
  wrongGrant("a source in capitals", { source: "REFUND" }, "source", "purchase or grant or refund or manual"),
  wrongGrant("a date without a time", { expiresAt: "2027-01-31" }, "expiresAt", "needs a time", "2026-01-31T12:00:00Z"),
  wrongGrant("a time without a zone", { expiresAt: "2027-01-31T12:00:00" }, "expiresAt", "Z or an offset at its end"),
  wrongGrant("a Unix time", { expiresAt: 1_800_000_000 }, "expiresAt", "a string", "not a number"),
  wrongGrant("a Unix time as text", { expiresAt: "1800000000" }, "expiresAt", "not a number"),
  wrongGrant("a day that does not exist", { expiresAt: "2027-02-30T12:00:00Z" }, "expiresAt", "a moment that exists"),
  wrongGrant(
    "a date in the format of JavaScript's Date",
    { expiresAt: "Sun Jan 31 2027 12:00:00 GMT" },
    "expiresAt",
    "RFC 3339",
  ),
  wrongGrant("an expiry in the past", { expiresAt: "2020-01-31T12:00:00Z" }, "expiresAt", "must be in the future"),
  wrongEvent(
    "null for an optional field",
    { occurredAt: null },
    "occurredAt",
    "must be a string, not null: omit an optional field instead",
  ),
  wrongEvent(
    "null for a unit",
    { quantities: { tokens: null } },
    "quantities.tokens",
    "omit an optional field instead",
  ),
  wrong(
    "a number that a double cannot represent",
    () => ({ path: GRANT, body: '{"userId": 12345678901234567890123, "packId": "Starter"}' }),
    "userId",
    "in quotes",
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
  wrongEvent("quantities as a number", { quantities: 5 }, "quantities", "must be an object"),
  wrongEvent("quantities as a list", { quantities: [{ tokens: 5 }] }, "quantities", "must be an object, not a list"),
  wrongEvent(
    "tokens as text",
    { quantities: { tokens: "5" } },
    "quantities.tokens",
    "must be a number, without quotes",
  ),
  wrongEvent("tokens below zero", { quantities: { tokens: -5 } }, "quantities.tokens", "must not be negative"),
  wrongEvent("an amount above the maximum", { quantities: { cents: 1e12 } }, "quantities.cents", "at most 8589934592"),
  wrongEvent(
    "properties as text",
    { properties: '{"a":1}' },
    "properties",
    "must be an object, not a string that holds JSON",
  ),
  wrongEvent("properties as a list", { properties: [] }, "properties", "must be an object, not a list"),
  wrongEvent("an invalid onShortage", { onShortage: "partly" }, "onShortage", "reject or partial"),
  wrongEvent("an event without an id", { eventId: undefined }, "eventId", "is required"),
  wrong(
    "a list of 101 events",
    () => ({ path: EVENTS, body: Array.from({ length: 101 }, () => ({})) }),
    "body",
    "at most 100",
  ),
  wrong(
    "a reservation of 0 seconds",
    () => ({ path: RESERVATIONS, body: { ...use, quantities: {}, expiresInSeconds: 0 } }),
    "expiresInSeconds",
    "from 1 to 86400",
  ),
  wrong(
    "a reservation of half a second",
    () => ({ path: RESERVATIONS, body: { ...use, quantities: {}, expiresInSeconds: 0.5 } }),
    "expiresInSeconds",
    "a whole number",
  ),
  wrong(
    "a reservation's duration as text",
    () => ({ path: RESERVATIONS, body: { ...use, quantities: {}, expiresInSeconds: "60" } }),
    "expiresInSeconds",
    "without quotes",
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
    "granted or denied or withdrawn",
  ),
  wrong(
    "true as text",
    () => ({ path: "/api/v1/consent", body: { distinctId: "ana", purpose: "ads", decision: "denied", gpc: "true" } }),
    "gpc",
    "must be true or false, without quotes",
  ),
  wrong(
    "an empty id of the exported person",
    () => ({ path: "/api/v1/export-person", body: { distinctId: "" } }),
    "distinctId",
    "must not be empty",
  ),
]);

const wrongRefund = (name: string, fields: object, param: string, ...says: string[]): Mistake => {
  const body = { userId: "ana", externalRef: "order-1", refundRef: "r1", ...fields };
  return wrong(name, () => ({ path: "/api/v1/credits/refund", body }), param, ...says);
};

describeMistakes("a wrong refund is refused with the correction", [
  wrongRefund(
    "refundId instead of refundRef",
    { refundRef: undefined, refundId: "r1" },
    "refundId",
    "write `refundRef`",
  ),
  wrongRefund("an amount instead of a share", { amount: 500 }, "amount", "`share`", "{ part: 500, of: 1500 }"),
  wrongRefund("a part outside of share", { part: 1, of: 2 }, "part", "into `share`, as `part`"),
  wrongRefund("a fraction as the share", { share: 0.5 }, "share", "must be an object"),
  wrongRefund("a share above 1", { share: { part: 2, of: 1 } }, "share", "at most `of`"),
  wrongRefund("a part as text", { share: { part: "1", of: 2 } }, "share.part", "without quotes"),
]);

const wrongQuery = (name: string, path: string, param: string, ...says: string[]): Mistake =>
  wrong(name, () => ({ path }), param, ...says);

describeMistakes("a wrong query string is refused with the correction", [
  wrongQuery("no user", "/api/v1/credits", "userId", "is required in the query string"),
  wrongQuery("the user in snake_case", "/api/v1/credits?user_id=ana", "userId", "not `user_id`"),
  wrongQuery("an empty user", "/api/v1/credits?userId=", "userId", "must not be empty"),
  wrongQuery("the user twice", "/api/v1/credits?userId=ana&userId=bob", "userId", "given once"),
  wrongQuery("1 for true", "/api/v1/credits?userId=ana&includeExpired=1", "includeExpired", "`true` or `false`"),
  wrongQuery("TRUE in upper case", "/api/v1/credits?userId=ana&includeExpired=TRUE", "includeExpired", "lower case"),
  wrongQuery("a limit of 0", "/api/v1/credits/history?userId=ana&limit=0", "limit", "from 1 to 500"),
  wrongQuery("a limit of 1000", "/api/v1/credits/history?userId=ana&limit=1000", "limit", "from 1 to 500"),
  wrongQuery("a limit in words", "/api/v1/credits/history?userId=ana&limit=ten", "limit", "a whole number"),
  wrongQuery("a made-up cursor", "/api/v1/credits/history?userId=ana&cursor=2", "cursor", "`nextCursor`"),
  wrongQuery("an empty cursor", "/api/v1/credits/history?userId=ana&cursor=", "cursor", "must not be empty"),
  wrongQuery("a date without a time", "/api/v1/usage?userId=ana&from=2026-01-01", "from", "needs a time"),
  wrongQuery(
    "an unescaped plus, which means a space",
    "/api/v1/usage?userId=ana&from=2026-01-01T00:00:00+01:00",
    "from",
    "RFC 3339",
  ),
  wrongQuery("invalid escapes", "/api/v1/credits?userId=%zz", "query", "escape"),
  wrong(
    "the arguments in the body of a GET",
    () => ({ path: "/api/v1/credits", headers: { "content-type": "application/json" } }),
    "userId",
    "the body of a GET is not read",
  ),
  wrong(
    "a made-up bookmark",
    () => ({ path: "/api/v1/credits?userId=ana", headers: { "x-d1-bookmark": "latest" } }),
    "x-d1-bookmark",
    "bookmark",
  ),
]);

/** A request for an object that does not exist, or for an impossible quantity. */
const missing = (
  name: string,
  send: (world: MistakenWorld) => MistakenRequest,
  code: Mistake["code"],
  param: string,
  ...says: string[]
): Mistake => ({
  ...{ name, send, code, param, says },
});

describeMistakes("a request for something that does not exist is refused with a suggestion", [
  missing(
    "a pack's name with a missing letter",
    () => ({ path: GRANT, body: { userId: "ana", packId: "Startr" } }),
    "credit_pack_not_found",
    "packId",
    "must match exactly, except for letter case",
    'Did you mean "Starter"?',
  ),
  missing(
    "a Stripe price instead of a pack",
    () => ({ path: GRANT, body: { userId: "ana", packId: "price_1PxQ" } }),
    "credit_pack_not_found",
    "packId",
    "an id of Stripe",
  ),
  missing(
    "a pack's name with a space at its end",
    () => ({ path: GRANT, body: { userId: "ana", packId: "Starter " } }),
    "credit_pack_not_found",
    "packId",
    "must match exactly, except for letter case",
  ),
  missing(
    "a pack's id that does not exist",
    () => ({ path: GRANT, body: { userId: "ana", packId: "cpk_7hWk3yB5nC0eUi9fMvS4Lx" } }),
    "credit_pack_not_found",
    "packId",
    "no credit pack with this id",
  ),
  missing(
    "a legacy pack without a quantity",
    () => ({ path: GRANT, body: { userId: "ana", packId: "Wallet" } }),
    "invalid_quantity",
    "quantity",
    "is required",
    "`cents`",
  ),
  missing(
    "a quantity of 0",
    () => ({ path: GRANT, body: { userId: "ana", packId: "Wallet", quantity: 0 } }),
    "invalid_quantity",
    "quantity",
    "must be more than 0",
  ),
  missing(
    "a quantity below 0",
    () => ({ path: GRANT, body: { userId: "ana", packId: "Wallet", quantity: -5 } }),
    "invalid_quantity",
    "quantity",
    "must be more than 0",
  ),
  missing(
    "a quantity with too many decimals",
    () => ({ path: GRANT, body: { userId: "ana", packId: "Wallet", quantity: 0.0000001 } }),
    "invalid_quantity",
    "quantity",
    "at most 6 decimals",
  ),
  missing(
    "a live balance with a test key",
    ({ balanceId, keys }) => ({ path: "/api/v1/credits/revoke", body: { balanceId }, key: keys.sk_test }),
    "credit_balance_not_found",
    "balanceId",
    "in this mode",
  ),
  missing(
    "a balance's id with a space",
    ({ balanceId }) => ({ path: "/api/v1/credits/revoke", body: { balanceId: ` ${balanceId}` } }),
    "credit_balance_not_found",
    "balanceId",
    "compared exactly",
  ),
  missing(
    "a pack's id instead of a balance's",
    ({ packId }) => ({ path: "/api/v1/credits/revoke", body: { balanceId: packId } }),
    "credit_balance_not_found",
    "balanceId",
    "begin with `crb_`",
  ),
  missing(
    "an unknown reservation",
    () => ({ path: `${RESERVATIONS}/res_none/commit`, body: { eventId: "e", quantities: {} } }),
    "reservation_not_found",
    "reservationId",
    "in this mode",
  ),
]);

describeMistakes("a wrong argument of administration is refused with the correction", [
  wrongAdministration(
    "an invalid mode",
    "/keys",
    "POST",
    { kind: "secret", mode: "production" },
    "mode",
    "live or test",
  ),
  wrongAdministration(
    "a kind in capitals",
    "/keys",
    "POST",
    { kind: "Secret", mode: "live" },
    "kind",
    "secret or publishable",
  ),
  wrongAdministration(
    "a pack's name in snake_case",
    "/packs",
    "POST",
    { pack_name: "P", items: [] },
    "pack_name",
    "write `packName`",
  ),
  wrongAdministration(
    "a pack without items and unit",
    "/packs",
    "POST",
    { packName: "P", items: [] },
    "unit",
    "is required for a pack without items",
  ),
  wrongAdministration(
    "a unit in the singular",
    "/packs",
    "POST",
    { packName: "P", items: [{ amount: 1, unit: "token" }] },
    "items[0].unit",
    "count or tokens or seconds or cents",
  ),
  wrongAdministration(
    "an amount of 0",
    "/packs",
    "POST",
    { packName: "P", items: [{ amount: 0, unit: "tokens" }] },
    "items[0].amount",
    "must be positive",
  ),
  wrongAdministration(
    "rules as text",
    "/packs",
    "POST",
    { packName: "P", items: [{ amount: 1, unit: "tokens", matches: "chat.*" }] },
    "items[0].matches",
    "must be a list",
  ),
  wrongAdministration(
    "globs instead of rules",
    "/packs",
    "POST",
    { packName: "P", items: [{ amount: 1, unit: "tokens", matches: ["chat.*"] }] },
    "items[0].matches[0]",
    'must be an object, such as `{ "event": "chat.*" }`',
  ),
  wrongAdministration(
    "an empty rule",
    "/packs",
    "POST",
    { packName: "P", items: [{ amount: 1, unit: "tokens", matches: [{}] }] },
    "items[0].matches[0]",
    "an event, a model or both",
  ),
  wrongAdministration(
    "a name with a space at its end",
    "/packs",
    "POST",
    { packName: "P ", items: [] },
    "packName",
    "white space",
  ),
  wrongAdministration(
    "the type of a setting in capitals",
    "/end-user-auth",
    "PUT",
    { mode: "live", setting: { type: "JWKS", url: "https://a.example" } },
    "setting.type",
    "jwks or hs256",
  ),
  wrongAdministration(
    "a key server without TLS",
    "/end-user-auth",
    "PUT",
    { mode: "live", setting: { type: "jwks", url: "http://a.example" } },
    "setting.url",
    "https",
  ),
  wrongAdministration(
    "a short secret",
    "/end-user-auth",
    "PUT",
    { mode: "live", setting: { type: "hs256", secret: "short" } },
    "setting.secret",
    "at least 32 bytes",
  ),
  wrongAdministration(
    "a setting that is not inside `setting`",
    "/end-user-auth",
    "PUT",
    { mode: "live", type: "jwks", url: "https://a.example" },
    "type",
    "into `setting`",
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

it("another user's cursor is refused, and the message says which cursor to send", async () => {
  const { keys, appId } = await makeApp();
  await makePack(appId, "Starter", [{ amountSteps: 1_000, unit: "tokens" }]);
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
