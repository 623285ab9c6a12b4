import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { writeKey } from "../../src/db/key-form.ts";
import { BODY_BYTES_MAX } from "../../src/http/json-body.ts";
import { utf8 } from "../../src/lib/encoding.ts";
import { randomId } from "../../src/lib/ids.ts";
import { describedOperations as operations } from "../../src/reference/api-document.ts";
import { type DescribedOperation, errorCodes, unwrapped, wrongKindOf } from "../../src/reference/describe-operation.ts";
import { END_USER_SETTING } from "../support/end-user-setting.ts";
import { expectError } from "../support/rejections.ts";
import { Clock, makeApp, makeClient, makeKey, type TestApp } from "../support/world.ts";

// W8: path → method → the address's limit → key → kind of key → size → shape → user token → existence → rule. Each request below
// fails one check and every later one, so the response shows which check comes first.

const call = makeClient(new Clock());
const TOO_LARGE = utf8(`[${" ".repeat(BODY_BYTES_MAX)}`);
/** A body that is too large by its header, as in a request over HTTP. To make and read so many bytes would take a test most of its time. */
const tooLarge = { body: "[", headers: { "content-length": `${TOO_LARGE.byteLength}` } };
const malformed = { "no-such-field": true };
/** The headers that a browser adds to a page's request. */
const PAGE = { origin: "https://shop.example", "sec-fetch-site": "cross-site" };

let app: TestApp;
let relayKey = "";
beforeAll(async () => {
  app = await makeApp(END_USER_SETTING);
  relayKey = await makeKey(app.environments.live, "relay");
});

const pathOf = (operation: DescribedOperation): string => operation.path.replace(/\{\w+\}/g, "x");
const keyFor = (operation: DescribedOperation): string =>
  operation.access === "admin" ? env.ADMIN_TOKEN : app.keys.sk_live;

const hasBodyLimit = (operation: DescribedOperation): boolean => errorCodes(operation).includes("payload_too_large");

/** Calls the operation with the key and the body, and without a query. */
function send(operation: DescribedOperation, key?: string, body?: unknown, headers: Record<string, string> = {}) {
  const method = operation.method.toUpperCase();
  const sent = body === tooLarge ? tooLarge : { body, headers: {} };
  return call(method, pathOf(operation), {
    headers: { ...headers, ...(hasBodyLimit(operation) ? sent.headers : {}) },
    ...(key === undefined ? {} : { key }),
    ...(!hasBodyLimit(operation) || sent.body === undefined ? {} : { body: sent.body }),
  });
}

const EVENT = { uuid: "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b", event: "seen", distinct_id: "ana", properties: {} };

/** Purser's own routes that need a key. Routes of PostHog's clients may have their key in the body. */
const guarded = operations.filter(({ access }) => ["secret", "end-user", "publishable", "admin"].includes(access));

describe.each(guarded)("the order of rejections of $method $path", (operation) => {
  const method = operation.method.toUpperCase();

  it("starts with the path", async () => {
    const body = hasBodyLimit(operation) ? tooLarge : {};
    expectError(await call(method, `${pathOf(operation)}/nowhere/at/all`, body), "not_found");
    expectError(await call(method, `${pathOf(operation)}/`, body), "not_found");
  });

  it("continues with the method", async () => {
    for (const other of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"]) {
      const here = operations.filter(({ path }) => path === operation.path).map((same) => same.method.toUpperCase());
      if (here.includes(other) || (other === "HEAD" && here.includes("GET"))) continue;
      // Pages may call an operation at this path, so OPTIONS is a preflight.
      const isPages = operations.some(
        (same) => same.path === operation.path && ["end-user", "publishable"].includes(same.access),
      );
      if (other === "OPTIONS" && isPages) continue;
      const answer = await call(other, pathOf(operation), other === "HEAD" || other === "GET" ? {} : tooLarge);
      const allow = (answer.headers.get("allow") ?? "").split(", ");
      expect(allow).toEqual(expect.arrayContaining(here));
      if (other === "HEAD") expect(answer.status).toBe(405);
      else expectError(answer, "method_not_allowed");
    }
  });

  it("then counts the request for its address (L2)", async () => {
    const limited = makeClient(new Clock(), { PUBLIC_REQUESTS: { limit: async () => ({ success: false }) } });
    const at = (path: string, other: string) => limited(other, path, other === "GET" ? {} : tooLarge);
    expectError(await at(`${pathOf(operation)}/nowhere/at/all`, method), "not_found");
    expectError(await at(pathOf(operation), "PURGE"), "method_not_allowed");
    const unknown = writeKey("secret", app.environments.live, randomId(""));
    for (const key of [undefined, "sk_live_0000000000000000000000", app.keys.pk_live, unknown]) {
      for (const headers of [{}, PAGE]) {
        const body = hasBodyLimit(operation) ? tooLarge : { headers: {} };
        const options = { ...(key === undefined ? {} : { key }), ...body, headers: { ...headers, ...body.headers } };
        expectError(await limited(method, pathOf(operation), options), "rate_limited");
      }
    }
  });

  it("then requires a key", async () => {
    expectError(await send(operation, undefined, tooLarge), "invalid_key");
    expectError(await send(operation, "sk_live_0000000000000000000000", tooLarge), "invalid_key");
    // A well-formed but unknown key: errors that need no database are found before the key is checked, but not reported.
    for (const kind of ["secret", "publishable", "relay"] as const) {
      const unknown = writeKey(kind, app.environments.live, randomId(""));
      for (const body of [tooLarge, malformed, "{", undefined]) {
        const answer = await send(operation, unknown, body);
        expectError(answer, "invalid_key");
        expect(answer.headers.get("x-d1-bookmark")).toBeNull();
      }
    }
  });

  it("then requires the right kind of key", async () => {
    const wrong = operation.access === "admin" ? app.keys.sk_live : app.keys.pk_live;
    const answer = await send(operation, wrong, tooLarge);
    if (operation.access === "admin") return expectError(answer, "invalid_key");
    if (!["end-user", "publishable"].includes(operation.access)) expectError(answer, wrongKindOf(operation));
  });

  if (operation.access !== "admin") {
    it("rejects a relay key as a key of the wrong kind (W13)", async () => {
      expectError(await send(operation, relayKey, tooLarge), wrongKindOf(operation));
    });
  }

  it("rejects every key but a publishable one in a page, before it checks the body's size (W11)", async () => {
    const servers = [app.keys.sk_live, relayKey];
    const keys = operation.access === "admin" ? [env.ADMIN_TOKEN, ...servers] : servers;
    for (const key of keys) {
      const answer = await send(operation, key, tooLarge, PAGE);
      expectError(answer, "forbidden");
      expect(answer.body.error.message).toContain("from the page");
    }
    const unknown =
      operation.access === "admin" ? "x".repeat(40) : writeKey("secret", app.environments.live, randomId(""));
    expectError(await send(operation, unknown, tooLarge, PAGE), "invalid_key");
  });

  it("accepts a key with only one of a page's headers, because servers and proxies send these too", async () => {
    const without = await send(operation, keyFor(operation), malformed);
    for (const [name, value] of Object.entries(PAGE)) {
      const answer = await send(operation, keyFor(operation), malformed, { [name]: value });
      expect([answer.status, answer.body?.error?.code]).toEqual([without.status, without.body?.error?.code]);
    }
  });

  if (hasBodyLimit(operation)) {
    it("then checks the body's size, even if no body is read", async () => {
      for (const body of [tooLarge, TOO_LARGE]) {
        expectError(await send(operation, keyFor(operation), body), "payload_too_large");
      }
    });
  }

  if (operation.body !== undefined) {
    it("then validates the body, before any lookup", async () => {
      for (const body of [malformed, "{", "null", "7", '"text"']) {
        expectError(await send(operation, keyFor(operation), body), "invalid_request");
      }
    });
  }

  if (operation.access === "end-user") {
    it("for a publishable key, then checks the page, the body and the arguments before the user's token", async () => {
      const key = app.keys.pk_live;
      if (hasBodyLimit(operation)) {
        expectError(await send(operation, key, tooLarge), "payload_too_large");
        for (const body of [malformed, "{"]) expectError(await send(operation, key, body), "invalid_request");
      } else expectError(await send(operation, key), "invalid_request", "userId");
      const setting = { type: "jwks", url: "https://keys.example.com/", origins: ["https://own.example"] };
      const bound = await makeApp(setting);
      for (const body of [tooLarge, malformed]) {
        expectError(await send(operation, bound.keys.pk_live, body, { origin: "https://shop.example" }), "forbidden");
      }
    });
  }

  const userId = operation.query && unwrapped(operation.query).shape.userId;
  if (userId !== undefined && !z.safeParse(userId, undefined).success) {
    it("then validates the query", async () => {
      expectError(await send(operation, keyFor(operation)), "invalid_request", "userId");
    });
  }
});

/** The routes of PostHog's clients. Each has its key in its own place. */
const ofClients = operations.filter(({ access }) => access === "client" || access === "key-inside");

describe.each(ofClients)("a key of the wrong kind at $method $path", ({ method, path, access }) => {
  const isStored = path !== "/flags" && path !== "/decide" && method === "post";
  const ask = (key: string, headers: Record<string, string> = {}) =>
    call(method.toUpperCase(), path.replace("{token}", key), {
      headers,
      ...(access === "client" ? { key } : {}),
      ...(method === "post" ? { body: { api_key: key, batch: [EVENT] } } : {}),
    });

  it("is rejected in a page (W11), and accepted with only one of a page's headers", async () => {
    const inPath = path.includes("{token}");
    for (const key of [app.keys.sk_live, relayKey]) {
      expectError(await ask(key, PAGE), "forbidden");
      if (inPath || (key === relayKey && !isStored)) continue;
      for (const [name, value] of Object.entries(PAGE)) expect((await ask(key, { [name]: value })).status).toBe(200);
    }
    expect((await ask(app.keys.pk_live, PAGE)).status).toBe(200);
  });

  it(
    isStored
      ? "does not include a relay key, because events are stored"
      : "includes a relay key, because nothing is stored",
    async () => {
      const answer = await ask(relayKey);
      if (isStored) expect(answer.status).toBe(200);
      else expectError(answer, "forbidden");
    },
  );
});

const post = (path: string, body: object) => call("POST", path, { key: app.keys.sk_live, body });

it("the last checks validates arguments before it looks up the pack", async () => {
  const body = { userId: "u", packId: "cpk_none", quantity: "one" };
  expectError(await post("/api/v1/credits/grant", body), "invalid_request", "quantity");
});

it("the last checks checks a user's token after the arguments, and before it compares their user", async () => {
  const key = app.keys.pk_live;
  const list = (query: string, headers: Record<string, string> = {}) =>
    call("GET", `/api/v1/credits${query}`, { key, headers });
  expectError(await list("?userId=u"), "invalid_user_token");
  expectError(await list("?userId=u", { "x-user-token": "none" }), "invalid_user_token");
  expectError(await list("?userId=u&includeExpired=maybe"), "invalid_request", "includeExpired");
  const consent = { distinctId: "u", purpose: "p", decision: "granted" };
  expectError(await call("POST", "/api/v1/consent", { key, body: consent }), "invalid_user_token");
});

it("the last checks looks up the pack before it applies any rule about it", async () => {
  const body = { userId: "u", packId: "cpk_none", quantity: -1, expiresAt: "2001-01-01T00:00:00Z" };
  expectError(await post("/api/v1/credits/grant", body), "credit_pack_not_found", "packId");
});

it("the last checks rejects a malformed bookmark as an argument: after the body's size, before existence", async () => {
  const headers = { "x-d1-bookmark": "garbage" };
  const send = (body: unknown) => call("POST", "/api/v1/credits/revoke", { key: app.keys.sk_live, body, headers });
  expectError(await send(TOO_LARGE), "payload_too_large");
  expectError(await send({ balanceId: "crb_none" }), "invalid_request", "x-d1-bookmark");
});
