import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { writeKey } from "../../../../src/auth/key.ts";
import { utf8 } from "../../../../src/lib/encoding.ts";
import { randomId } from "../../../../src/lib/ids.ts";
import { JsonBytes } from "../../../../src/lib/json-bytes.ts";
import { findKey } from "../../../../src/people/capture/client-body.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { base64, gzip, spyOnDecompressor } from "../../../support/encode.ts";
import { expectError } from "../../../support/refusals.ts";
import { Clock, makeApp, makeClient, type TestApp } from "../../../support/world.ts";

/** Returns how many bytes the decompressor has received. */
let givenBytes: () => number;
beforeEach(() => {
  givenBytes = spyOnDecompressor();
});
afterEach(() => {
  vi.restoreAllMocks();
});

async function world() {
  const app = await makeApp();
  const { d1, spent } = countingD1(env.DB);
  const call = makeClient(new Clock(), { DB: d1 });
  const unknown = writeKey("publishable", app.environments.live, randomId(""));
  return { app, call, spent, unknown };
}

const noise = Array.from(crypto.getRandomValues(new Uint8Array(50_000)), (byte) =>
  byte.toString(16).padStart(2, "0"),
).join("");
let uuids = 0;
/** Events of about 100 KiB each, which gzip hardly compresses: it finds no repetition over more than 32 KiB. */
const large = (count: number, more = "") =>
  Array.from({ length: count }, (_, n) => {
    const uuid = `00000000-0000-4000-8000-${`${uuids++}`.padStart(12, "0")}`;
    return `{"event":"e${n}","distinct_id":"u","uuid":"${uuid}","properties":{"noise":"${noise}"${more}}}`;
  });

const storedEventCount = async (app: TestApp) =>
  env.DB.prepare("SELECT count(*) AS n FROM analytics_events WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .first<number>("n");

const FORM = { "content-type": "application/x-www-form-urlencoded" };
/** The ways in which clients encode a body: name, function and headers. */
const PACKINGS: readonly (readonly [string, (text: string) => Promise<Uint8Array>, Record<string, string>])[] = [
  ["plain", async (text) => utf8(text), {}],
  ["gzip", gzip, {}],
  ["base64", async (text) => utf8(base64(utf8(text))), {}],
  ["base64 of gzip in a form", async (text) => utf8(`v=1&data=${encodeURIComponent(base64(await gzip(text)))}`), FORM],
];

describe.each(PACKINGS)("a large body, %s,", (_, pack, headers) => {
  const bodies: readonly (readonly [string, (key: string) => string])[] = [
    ["of a batch, its key first", (key) => `{"api_key":"${key}","batch":[${large(4).join()}]}`],
    [
      "of a batch, its key after another value",
      (key) => `{"sent_at":"x","other":[{"a":"]"}],"token":"${key}","batch":[${large(4).join()}]}`,
    ],
    [
      "of a list, its key in the first event",
      (key) =>
        `[${large(2)
          .map((event) => event.replace("{", `{"token":"${key}",`))
          .join()}]`,
    ],
    [
      "of a list, its key in the first event's properties",
      (key) =>
        `[${large(2)
          .map((event) => event.replace('{"noise"', `{"token":"${key}","noise"`))
          .join()}]`,
    ],
  ];

  it.each(bodies)("%s, is stored if the key is valid", async (_name, make) => {
    const { app, call } = await world();
    const body = await pack(make(app.keys.pk_live));
    expect((await call("POST", "/batch/", { headers, body })).status).toBe(200);
    expect(await storedEventCount(app)).toBeGreaterThanOrEqual(2);
  });

  it.each(bodies)("%s, is hardly unpacked and not parsed if the key is not valid", async (_name, make) => {
    const { app, call, spent, unknown } = await world();
    const body = await pack(make(unknown));
    const walked = vi.spyOn(JsonBytes.prototype, "whole");
    expectError(await call("POST", "/batch/", { headers, body }), "invalid_key");
    expect(walked).not.toHaveBeenCalled();
    // 64 KiB of the text are at most about 40 KiB of gzip.
    expect(givenBytes()).toBeLessThan(100_000);
    expect(spent().roundTrips).toBe(1);
    expect(await storedEventCount(app)).toBe(0);
  });

  it("whose key comes later is still stored, and nothing is stored without a valid key", async () => {
    const { app, call, unknown } = await world();
    const send = async (key: string) =>
      call("POST", "/batch/", { headers, body: await pack(`{"batch":[${large(4).join()}],"api_key":"${key}"}`) });
    expect((await send(app.keys.pk_live)).status).toBe(200);
    expect(await storedEventCount(app)).toBe(4);
    expectError(await send(unknown), "invalid_key");
    expect(await storedEventCount(app)).toBe(4);
  });

  it("with another key further on is refused", async () => {
    const { app, call } = await world();
    const { pk_live, pk_test } = app.keys;
    const body = await pack(`{"token":"${pk_live}","batch":[${large(2).join()}],"api_key":"${pk_test}"}`);
    expectError(await call("POST", "/batch/", { headers, body }), "invalid_request", "body");
    expect(await storedEventCount(app)).toBe(0);
  });

  it("with a property `token` of its own is stored by its key", async () => {
    const { app, call } = await world();
    const [event = ""] = large(1);
    const body = await pack(
      event.replace('{"noise"', '{"token":"mine","noise"').replace(/\}$/, `,"api_key":"${app.keys.pk_live}"}`),
    );
    expect((await call("POST", "/capture/", { headers, body })).status).toBe(200);
    expect(await storedEventCount(app)).toBe(1);
  });
});

it("a large body of v1 is unpacked after its key is known", async () => {
  const { app, call, unknown } = await world();
  const body = await gzip(`{"batch":[${large(4).join()}]}`);
  const send = (key: string) => call("POST", "/i/v1/analytics/events", { key, body });
  expectError(await send(unknown), "invalid_key");
  expect(givenBytes()).toBeLessThan(100_000);
  expect((await send(app.keys.sk_live)).status).toBe(200);
  expect(await storedEventCount(app)).toBe(4);
});

it("a small body takes one trip, and a large one takes two", async () => {
  const { app, call, spent } = await world();
  const { pk_live } = app.keys;
  const send = async (text: string) => {
    spent();
    expect((await call("POST", "/batch/", { body: await gzip(text) })).status).toBe(200);
    return spent().roundTrips;
  };
  const small = () => `{"api_key":"${pk_live}","batch":[{"event":"e","distinct_id":"w"}]}`;
  await send(small());
  expect(await send(small())).toBe(1);
  const spaced = `{"api_key":"${pk_live}","batch":[{"event":"e","distinct_id":"w"${" ".repeat(70_000)}}]}`;
  expect(await send(spaced)).toBe(2);
});

describe("a large body of Purser's own routes", () => {
  const post = { path: "/api/v1/usage/events", body: `{"eventId":"${" ".repeat(70_000)}"` };

  it("is parsed after its key is known", async () => {
    const { app, call, spent } = await world();
    const unknown = writeKey("secret", app.environments.live, randomId(""));
    const walked = vi.spyOn(JsonBytes.prototype, "whole");
    expectError(await call("POST", post.path, { key: unknown, body: post.body }), "invalid_key");
    expect(walked).not.toHaveBeenCalled();
    expect(spent().roundTrips).toBe(1);
    expectError(await call("POST", post.path, { key: app.keys.sk_live, body: post.body }), "invalid_request", "body");
    expect(walked).toHaveBeenCalledOnce();
    expect(spent().roundTrips).toBe(1);
  });
});

describe("findKey", () => {
  it.each([
    ["an empty text", "", null],
    ["a text that is not JSON", "nonsense", null],
    ["an empty object", "{}", null],
    ["an empty list", "[]", null],
    ["an object with a number before the key", '{"api_key":7,"token":"t"}', "t"],
    ["an object with null before the key", '{"api_key":null,"$token":"t"}', "t"],
    ["an object with an escaped name", '{"api_\\u006bey":"t"}', "t"],
    ["a text that is cut after the key", '{"api_key":"t","batch":[{"a":"', "t"],
    ["a text that is cut within the key", '{"api_key":"t', null],
    ["a text that is invalid before the key", '{"a":tru,"api_key":"t"}', null],
    ["a list with the key in its second event", '[{"event":"e"},{"token":"t"}]', null],
    ["a batch with the key in its events", '{"batch":[{"token":"t"}]}', null],
  ])("finds the key, or none, in %s", (_, text, key) => {
    expect(findKey(utf8(text))).toBe(key);
  });
});
