import { env } from "cloudflare:workers";
import { afterEach, beforeAll, expect, it, vi } from "vitest";
import { BODY_BYTES_MAX } from "../../../src/http/json-body.ts";
import { describedOperations as operations } from "../../../src/reference/api-document.ts";
import { CREDITS } from "../../support/paths.ts";
import { expectError } from "../../support/rejections.ts";
import { Clock, makeApp, makeClient, type TestApp } from "../../support/world.ts";

const REVOKE = "/api/v1/credits/revoke";

const call = makeClient(new Clock());
let app: TestApp;
beforeAll(async () => {
  app = await makeApp();
});
afterEach(() => {
  vi.restoreAllMocks();
});

const revoke = (body: unknown, headers: Record<string, string> = {}) =>
  call("POST", REVOKE, { key: app.keys.sk_live, body, headers });
const list = (query: string, headers: Record<string, string> = {}) =>
  call("GET", `${CREDITS}${query}`, { key: app.keys.sk_live, headers });

it.each(["/api", "/api/v1", "/api/v1/", "/api/v2/credits", "/API/v1/credits", "/api/v1/credits/", "//api/v1/credits"])(
  "an unknown path %s is not_found, by any method",
  async (path) => {
    for (const method of ["GET", "POST", "DELETE", "OPTIONS"]) expectError(await call(method, path), "not_found");
    expect((await call("HEAD", path)).status).toBe(404);
  },
);

it("an unknown path is not_found if its percent-escapes are not UTF-8, or not escapes at all", async () => {
  for (const path of ["/api/v1/credits%FF", "/api/v1/%", "/api/v1/%zz", "/%E0%A4%A", "/api/v1/credits%2Fgrant"]) {
    expectError(await call("GET", path), "not_found");
  }
});

it("a wrong method is rejected with the allowed methods in Allow", async () => {
  const answer = await call("GET", REVOKE);
  expectError(answer, "method_not_allowed");
  expect(answer.headers.get("allow")).toBe("POST");
  expect((await call("POST", "/health")).headers.get("allow")).toBe("GET, HEAD");
  expect((await call("DELETE", CREDITS)).headers.get("allow")).toBe("GET, HEAD, OPTIONS");
});

it("a wrong method is rejected without a body for HEAD, which otherwise answers as GET does", async () => {
  expect(await call("HEAD", REVOKE)).toMatchObject({ status: 405, body: "" });
  expect(await call("HEAD", "/health")).toMatchObject({ status: 200, body: "" });
  const head = await call("HEAD", `${CREDITS}?userId=u`, { key: app.keys.sk_live });
  expect(head).toMatchObject({ status: 200, body: "" });
});

const valid = { balanceId: "crb_none" };

it("a body is measured in bytes: 1 MiB passes, one byte more does not, however it is sent", async () => {
  const text = JSON.stringify(valid);
  const exact = text + " ".repeat(BODY_BYTES_MAX - text.length);
  const asStream = (body: string) => new Response(body).body;
  for (const pack of [(body: string) => body, asStream]) {
    expectError(await revoke(pack(exact)), "credit_balance_not_found");
    expectError(await revoke(pack(`${exact} `)), "payload_too_large");
  }
  expectError(await revoke(exact, { "content-length": `${BODY_BYTES_MAX}` }), "credit_balance_not_found");
  expectError(await revoke(`${exact} `, { "content-length": `${BODY_BYTES_MAX + 1}` }), "payload_too_large");
  for (const untrue of ["5", "abc", "", "-1"]) {
    expectError(await revoke(`${exact} `, { "content-length": untrue }), "payload_too_large");
  }
});

it("a body that is not JSON is rejected as a whole", async () => {
  for (const body of ["", " ", "{", "{'a':1}", '{"balanceId":"x"} x', "NaN", "undefined", '{"balanceId":"x",}']) {
    expectError(await revoke(body), "invalid_request", "body");
  }
  expectError(await call("POST", REVOKE, { key: app.keys.sk_live }), "invalid_request", "body");
});

it("a body that is not an object is rejected as a whole", async () => {
  for (const body of ["null", "[]", "[{}]", "1", "true", '"text"']) {
    expectError(await revoke(body), "invalid_request", "body");
  }
});

it("a body that is not UTF-8 is rejected, never repaired", async () => {
  const bytes = (...middle: number[]) =>
    new Uint8Array([...new TextEncoder().encode('{"balanceId":"'), ...middle, ...new TextEncoder().encode('"}')]);
  for (const middle of [[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xe2, 0x82]]) {
    expectError(await revoke(bytes(...middle)), "invalid_request", "body");
  }
  expectError(await revoke('{"balanceId":"\\ud800"}'), "invalid_request", "balanceId");
  expectError(await revoke(bytes(0xe2, 0x82, 0xac)), "credit_balance_not_found");
});

it("a body is read as JSON whatever its declared type, even with a byte order mark", async () => {
  for (const type of ["text/plain", "application/json; charset=utf-8", "application/x-www-form-urlencoded", "junk"]) {
    expectError(await revoke(JSON.stringify(valid), { "content-type": type }), "credit_balance_not_found");
  }
  expectError(await revoke(`\u{feff}${JSON.stringify(valid)}`), "credit_balance_not_found");
});

it("a body with an unknown field is rejected by its name, even `__proto__` and the like", async () => {
  for (const name of ["externalref", "__proto__", "constructor", "toString", "", " balanceId", "balanceid"]) {
    const answer = await revoke(`{"balanceId":"crb_none",${JSON.stringify(name)}:{"isAdmin":true}}`);
    expectError(answer, "invalid_request", name === "" ? "body" : name);
  }
});

it("a body with a value of the wrong type is rejected by the field's name, and the value is not repeated", async () => {
  for (const [value, instead] of [
    [null, ", not null: omit an optional field instead"],
    [1, ", in quotes"],
    [true, ", in quotes"],
    [[], ", not a list"],
    [{}, ", not an object"],
    [["secret-value"], ", not a list"],
    [{ "secret-value": 1 }, ", not an object"],
  ]) {
    const answer = await revoke({ balanceId: value });
    expectError(answer, "invalid_request", "balanceId");
    expect(answer.body.error.message).toBe(`balanceId must be a string${instead}.`);
  }
  const grant = { userId: "u", packId: "p", source: "secret-value" };
  const answer = await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body: grant });
  expectError(answer, "invalid_request", "source");
  expect(answer.body.error.message).toBe("source must be purchase or grant or refund or manual.");
});

it("a body without a required field is rejected by its name", async () => {
  expect((await revoke({})).body.error).toMatchObject({ param: "balanceId", message: "balanceId is required." });
});

it("a body with the maximum nesting is rejected without a crash", async () => {
  expectError(await revoke(`{"balanceId":${"[".repeat(200_000)}${"]".repeat(200_000)}}`), "invalid_request", "body");
  const within = `{"balanceId":${"[".repeat(999)}${"]".repeat(999)}}`;
  expectError(await revoke(within), "invalid_request", "balanceId");
  expectError(await revoke("[".repeat(BODY_BYTES_MAX)), "invalid_request", "body");
});

it("a query with a known parameter given twice is rejected, even with the same value", async () => {
  for (const query of [
    "?userId=u&userId=u",
    "?userId=u&event=a&event=b",
    "?userId=u&includeExpired=true&includeExpired=true",
  ]) {
    const answer = await list(query);
    expectError(answer, "invalid_request");
    expect(answer.body.error.message).toBe(`${answer.body.error.param} must be given once.`);
  }
});

it("a query may have unknown parameters, once or repeatedly", async () => {
  const answer = await list("?userId=u&utm_source=mail&x=1&x=2&__proto__=1&__proto__=2&constructor=1");
  expect(answer.status).toBe(200);
});

it("a query may have unknown parameters whose escapes are not UTF-8, but none that it reads", async () => {
  for (const query of [
    "?userId=u&utm_source=caf%E9",
    "?%FF=1&userId=u",
    "?userId=u&x=%&y=%zz",
    "?q=%ED%A0%80&userId=u",
  ]) {
    expect((await list(query)).status).toBe(200);
  }
  expectError(await list("?utm_source=caf%E9"), "invalid_request", "userId");
  for (const query of ["?userId=u&event=%E9", "?userId=u&e%76ent=%E9", "?user%49d=%E9", "?userId=u%E9&utm_source=x"]) {
    expectError(await list(query), "invalid_request", "query");
  }
});

it.each([
  ["with a content-length", { "content-length": "100" }],
  ["in pieces", {}],
])("an upload that its client aborts %s is refused as an invalid body, and nothing is logged", async (_, headers) => {
  const log = vi.spyOn(console, "error");
  const warned = vi.spyOn(console, "warn");
  const aborted = () =>
    new ReadableStream<Uint8Array>({
      start: (stream) => stream.enqueue(new TextEncoder().encode('{"distinctId":"cut",')),
      pull: (stream) => stream.error(new Error("Network connection lost.")),
    });
  const key = app.keys.sk_live;
  for (const path of ["/api/v1/consent", "/batch/", "/i/v1/analytics/events", "/api/v1/credits/grant"]) {
    const answer = await call("POST", path, { key, body: aborted(), headers });
    expectError(answer, "invalid_request", "body");
  }
  expect([...log.mock.calls, ...warned.mock.calls]).toEqual([]);
});

it("every response forbids caching and guessing its type", async () => {
  const key = app.keys.sk_live;
  const answers = [
    await list("?userId=u"),
    await list(""),
    await call("GET", CREDITS),
    await call("GET", "/nowhere"),
    await call("GET", "/health"),
    await call("PUT", CREDITS),
    await call("POST", "/flags/", { body: { api_key: app.keys.pk_live } }),
    await call("POST", "/batch/", { body: { api_key: app.keys.pk_live, event: "seen", distinct_id: "u" } }),
    await call("GET", `/array/${app.keys.pk_live}/config.js`),
    await call("POST", "/api/v1/export-person", { key, body: { distinctId: "u" } }),
    await call("GET", "/api/v1/admin/apps", { key: env.ADMIN_TOKEN }),
    await call("GET", "/api/v1/admin/apps", { key: "wrong" }),
  ];
  for (const { headers } of answers) {
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
  }
});

const secrets = ["alice@example.com", "TypeError", "SELECT", "sk_live_"];

it("a bug is a 500 that does not reveal its cause, and a log line without personal data", async () => {
  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  const cause = new TypeError(`no such row for alice@example.com\n    at alice@example.com`);
  const failingD1 = {
    withSession: () => {
      throw new Error("SELECT * FROM people WHERE id = 'alice@example.com'", { cause });
    },
  };
  const breaking = makeClient(new Clock(), { DB: failingD1 as unknown as D1Database });
  const answer = await breaking("GET", `${CREDITS}?userId=alice@example.com`, { key: app.keys.sk_live });
  expectError(answer, "internal_error");
  expect(Object.keys(answer.body.error).sort()).toEqual(["code", "message", "requestId"]);

  expect(log).toHaveBeenCalledTimes(1);
  const line = String(log.mock.calls[0]?.[0]);
  expect(JSON.parse(line)).toMatchObject({ level: "error", requestId: answer.body.error.requestId });
  expect(JSON.parse(line).chain).toHaveLength(2);
  for (const secret of secrets.filter((word) => word !== "TypeError")) {
    expect(line).not.toContain(secret);
    expect(JSON.stringify(answer.body)).not.toContain(secret);
  }
});

it("a bug is the only error that is logged: a rejection is not", async () => {
  const log = vi.spyOn(console, "error");
  expectError(await revoke({ balanceId: "crb_none" }), "credit_balance_not_found");
  expect(log).not.toHaveBeenCalled();
});

const USER = "alice@example.com";
const failing = (words: string) => {
  const cause = new Error(`${words} SELECT * FROM people WHERE id = '${USER}'`);
  const fail = () => Promise.reject(cause);
  const statement = { first: fail, run: fail, all: fail, raw: fail, bind: () => statement };
  const session = { prepare: () => statement, batch: fail, getBookmark: () => null };
  return { ...session, withSession: () => session } as unknown as D1Database;
};
const faults: [string, string][] = [
  ["database_overloaded", "D1_ERROR: D1 DB is overloaded. Requests queued for too long."],
  ["database_unreachable", "D1_ERROR: Network connection lost."],
];

it.each(faults)("a 503 is one log line that names its fault and nothing of its request: %s", async (fault, words) => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  const log = vi.spyOn(console, "warn").mockImplementation(() => {});
  const bug = vi.spyOn(console, "error").mockImplementation(() => {});
  const sick = makeClient(new Clock(), { DB: failing(words) });
  const answer = await sick("GET", `${CREDITS}?userId=${USER}`, { key: app.keys.sk_live });
  expectError(answer, "temporarily_unavailable");
  const { requestId } = answer.body.error;
  const line = JSON.stringify({ level: "warn", code: "temporarily_unavailable", fault, requestId });
  expect(log.mock.calls).toEqual([[line]]);
  expect(bug).not.toHaveBeenCalled();
});

it("a 503 is logged in the same way for other causes", async () => {
  const log = vi.spyOn(console, "warn").mockImplementation(() => {});
  const options = { key: app.keys.sk_live, body: { distinctId: USER } };
  const unset = makeClient(new Clock(), { ANALYTICS_EXPORT_SECRET: "short" });
  const answers = [
    await unset("POST", "/api/v1/export-person", options),
    await makeClient(new Clock(), { DB: failing("down"), SPARE: failing("down") })("GET", "/health"),
  ];
  const [mint, health] = answers.map((answer) => answer.body.error.requestId);
  expect(log.mock.calls.map(([line]) => JSON.parse(String(line)))).toEqual([
    { level: "warn", code: "export_unavailable", fault: "not_set_up", requestId: mint },
    { level: "warn", code: "temporarily_unavailable", fault: "database_unreachable", requestId: health },
  ]);
});

it("the request's own id is in every response, different each time, and in every error", async () => {
  const answers = [
    await call("GET", "/health"),
    await call("GET", "/nowhere"),
    await list("?userId=u"),
    await list(""),
  ];
  const ids = answers.map((answer) => answer.headers.get("x-request-id"));
  expect(new Set(ids).size).toBe(4);
  for (const id of ids) expect(id).toMatch(/^req_[0-9A-Za-z]{22}$/);
});

it("the request's own id is never taken from the caller", async () => {
  const answer = await list("?userId=u", { "x-request-id": "forged" });
  expect(answer.headers.get("x-request-id")).not.toBe("forged");
});

it("a bookmark in a rejection is not older than that of the previous response", async () => {
  await list("?userId=bookmarked");
  const body = { distinctId: "bookmarked", purpose: "ads", decision: "denied" };
  const written = await call("POST", "/api/v1/consent", { key: app.keys.sk_live, body });
  expect(written.status).toBe(200);
  const refused = await revoke("{}");
  expectError(refused, "invalid_request", "balanceId");
  const [before = "", after = ""] = [written, refused].map((answer) => answer.headers.get("x-d1-bookmark") ?? "");
  expect(before).not.toBe("");
  expect(after >= before).toBe(true);
});

const FORM = /^[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{32}$/;

it("a bookmark is in every response to a valid key", async () => {
  const large = "x".repeat(BODY_BYTES_MAX + 1);
  const history = (key: string) => call("GET", "/api/v1/credits/history?userId=u", { key });
  const answers = {
    200: await list("?userId=u"),
    400: await list(""),
    403: await history(app.keys.pk_live),
    404: await revoke({ balanceId: "crb_none" }),
    413: await revoke(large),
  };
  for (const [status, answer] of Object.entries(answers)) {
    expect(answer.status).toBe(Number(status));
    expect(answer.headers.get("x-d1-bookmark"), status).toMatch(FORM);
  }
});

it("a bookmark is in no other response", async () => {
  const answers = [await call("GET", CREDITS), await call("GET", "/nowhere"), await call("GET", "/health")];
  for (const answer of answers) expect(answer.headers.get("x-d1-bookmark")).toBeNull();
});

it("a bookmark that this database never issued is ignored: it is neither sent to D1 nor returned", async () => {
  const starts: string[] = [];
  const withSession = (start: string) => {
    starts.push(start);
    return env.DB.withSession(start);
  };
  const spied = makeClient(new Clock(), { DB: { withSession } as unknown as D1Database });
  const key = app.keys.sk_live;
  const future = "fffffffe-ffffffff-00004f5c-4c2bb2e0d0a7f5f2d9f3b0e6b1a2c3d4";
  const headers = { "x-d1-bookmark": future };
  const first = await spied("GET", `${CREDITS}?userId=u`, { key, headers });
  const answers = [
    first,
    await spied("GET", `${CREDITS}?userId=u`, { key, headers }),
    await spied("POST", "/api/v1/consent", {
      key,
      headers,
      body: { distinctId: "u", purpose: "p", decision: "denied" },
    }),
    await spied("GET", `${CREDITS}?userId=u`, { key }),
  ];
  for (const answer of answers) {
    expect(answer.status).toBe(200);
    expect(answer.headers.get("x-d1-bookmark")).toMatch(FORM);
    expect((answer.headers.get("x-d1-bookmark") ?? "") < future).toBe(true);
  }
  expect(new Set(starts)).toEqual(new Set(["first-unconstrained", "first-primary"]));
});

it("a bookmark can be sent back, and is rejected if it is malformed", async () => {
  const sentBookmark = (await list("?userId=u")).headers.get("x-d1-bookmark") ?? "";
  const answer = await list("?userId=u", { "x-d1-bookmark": sentBookmark });
  expect(answer.status).toBe(200);
  expect((answer.headers.get("x-d1-bookmark") ?? "") >= sentBookmark).toBe(true);
  for (const bookmark of [
    "garbage",
    "first-primary",
    `${sentBookmark}0`,
    sentBookmark.toUpperCase().replace(/\d/g, "G"),
    "'; --",
  ]) {
    const refused = await list("?userId=u", { "x-d1-bookmark": bookmark });
    expectError(refused, "invalid_request", "x-d1-bookmark");
    expect(refused.headers.get("x-d1-bookmark")).toMatch(FORM);
  }
});

const pathOf = (path: string) => path.replace(/\{\w+\}/g, "x");
const forBrowsers = operations.filter(({ access }) =>
  ["end-user", "client", "key-inside", "publishable"].includes(access),
);
const others = operations.filter(({ path }) => !forBrowsers.some((operation) => operation.path === path));
const preflight = (path: string) =>
  call("OPTIONS", path, {
    headers: {
      origin: "https://shop.example",
      "access-control-request-method": "GET",
      "access-control-request-headers": "authorization,x-user-token",
    },
  });
const corsOf = (headers: Headers) => [...headers.keys()].filter((name) => name.startsWith("access-control-"));

it.each(forBrowsers)("browsers may call $method $path: a preflight is cached for a day", async ({ path, access }) => {
  const { status, headers, body } = await preflight(pathOf(path));
  expect({ status, body }).toEqual({ status: 204, body: "" });
  expect(headers.get("access-control-allow-origin")).toBe("*");
  expect(headers.get("access-control-max-age")).toBe("86400");
  expect(headers.get("access-control-allow-headers")?.split(",").sort()).toEqual(
    [
      ...["authorization", "content-type", "x-d1-bookmark", "x-user-token"],
      // Clients of PostHog compress what they capture (W11).
      ...(access === "end-user" || access === "publishable" ? [] : ["content-encoding"]),
    ].sort(),
  );
  expect(headers.get("access-control-allow-credentials")).toBeNull();
});

it.each(forBrowsers)("browsers may read the responses of $method $path, including errors", async ({ method, path }) => {
  const headers = { origin: "https://shop.example" };
  const answers = [
    await call(method.toUpperCase(), pathOf(path), { headers }),
    await call("DELETE", pathOf(path), { headers }),
  ];
  for (const { status } of answers) expect(status).toBeGreaterThanOrEqual(400);
  answers.push(await call(method.toUpperCase(), pathOf(path), { headers, key: app.keys.sk_live }));
  for (const answer of answers) {
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect(answer.headers.get("access-control-expose-headers")?.split(",").sort()).toEqual(
      ["idempotent-replayed", "purser-warning", "retry-after", "x-d1-bookmark", "x-request-id"].sort(),
    );
  }
});

it.each(others)("browsers may not call $method $path", async ({ method, path }) => {
  const refused = await preflight(pathOf(path));
  expectError(refused, "method_not_allowed");
  const answer = await call(method.toUpperCase(), pathOf(path), { headers: { origin: "https://shop.example" } });
  expect([...corsOf(refused.headers), ...corsOf(answer.headers)]).toEqual([]);
});

it("browsers may not call an unknown path", async () => {
  const refused = await preflight("/api/v1/nowhere");
  expectError(refused, "not_found");
  expect(corsOf(refused.headers)).toEqual([]);
});
