import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { keyHint, writeKey } from "../../../../src/db/key-form.ts";
import { utf8 } from "../../../../src/lib/encoding.ts";
import { randomId } from "../../../../src/lib/ids.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { base64, gzip, spyOnDecompressor } from "../../../support/encode.ts";
import { expectError } from "../../../support/rejections.ts";
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

/** Returns how many texts of 64 KiB or more are parsed from now on. */
function parsedTexts(): () => number {
  const parse = vi.spyOn(JSON, "parse");
  return () => parse.mock.calls.filter(([text]) => text.length >= 64 * 1024).length;
}

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
    const longTexts = parsedTexts();
    expectError(await call("POST", "/batch/", { headers, body }), "invalid_key");
    expect(longTexts()).toBe(0);
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

  it("whose batch names another environment's key is rejected", async () => {
    const { app, call } = await world();
    const { pk_live, pk_test } = app.keys;
    const body = await pack(`{"token":"${pk_live}","batch":[${large(2).join()}],"api_key":"${pk_test}"}`);
    expectError(await call("POST", "/batch/", { headers, body }), "invalid_request", "batch[0].api_key");
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

const post = { path: "/api/v1/usage/events", body: `{"eventId":"${" ".repeat(70_000)}"` };

it("a large body of Purser's own routes is parsed after its key is known", async () => {
  const { app, call, spent } = await world();
  const unknown = writeKey("secret", app.environments.live, randomId(""));
  const longTexts = parsedTexts();
  expectError(await call("POST", post.path, { key: unknown, body: post.body }), "invalid_key");
  expect(longTexts()).toBe(0);
  expect(spent().roundTrips).toBe(1);
  expectError(await call("POST", post.path, { key: app.keys.sk_live, body: post.body }), "invalid_request", "body");
  expect(longTexts()).toBe(1);
  expect(spent().roundTrips).toBe(1);
});

it("a body of a capture client is invalid_key behind an unknown key, also where it is not JSON", async () => {
  const { app, call, unknown } = await world();
  const send = (key: string) => call("POST", "/batch/", { body: `{"api_key":"${key}","batch":[{` });
  expectError(await send(unknown), "invalid_key");
  expectError(await send("phc_of_another_product"), "invalid_key");
  expectError(await send(app.keys.pk_live), "invalid_request", "body");
});

it("a body of a capture client rejects only the event that names another environment's key", async () => {
  const { app, call } = await world();
  const event = (token: string) => ({ event: "seen", distinct_id: "ana", properties: { token } });
  const answer = await call("POST", "/batch/", { body: [app.keys.pk_live, app.keys.pk_test].map(event) });
  expect(answer.status).toBe(200);
  expect(answer.body.refused).toMatchObject([{ index: 1, param: "api_key" }]);
  expect(await storedEventCount(app)).toBe(1);
});

it("a small body of a capture client goes by the key that it names, not by one in the texts of its events", async () => {
  const { app, call } = await world();
  const { pk_live, pk_test, sk_live } = app.keys;
  const event = (text: string, more = {}) => ({ event: "seen", distinct_id: "ana", properties: { text, ...more } });
  for (const text of [sk_live, pk_test]) {
    for (const body of [{ batch: [event(text)], api_key: pk_live }, [event(text, { token: pk_live })]]) {
      const answer = await call("POST", "/batch/", { body });
      expect([answer.status, answer.body]).toEqual([200, { status: 1 }]);
    }
  }
  const stored = await env.DB.prepare("SELECT is_verified FROM analytics_events WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .all();
  expect(stored.results).toEqual(Array(4).fill({ is_verified: 0 }));
});

it("a body of a capture client counts once more for each ten events beyond ten, by publishable keys alone", async () => {
  const { app } = await world();
  const call = makeClient(new Clock(), { BEHIND_CLOUDFLARE: "true" });
  const headers = { "cf-connecting-ip": "192.0.2.77" };
  const send = (key: string, events: number) => {
    const batch = Array.from({ length: events }, () => ({ event: "seen", distinct_id: "ana" }));
    return call("POST", "/batch/", { headers, body: { api_key: key, batch } });
  };
  expect((await send(app.keys.pk_live, 10_000)).status).toBe(200);
  // 1,000 counts are taken, and 199 + 1 are left.
  expect((await send(app.keys.pk_live, 2_000)).status).toBe(200);
  expectError(await send(app.keys.pk_live, 1), "temporarily_unavailable");
  expect(await storedEventCount(app)).toBe(12_000);
});

it("a body of a capture client stores no key, wherever it stands, and keeps its JSON value without one", async () => {
  const { app, call } = await world();
  const { pk_live, sk_live } = app.keys;
  const escaped = sk_live.replace("_", "\\u005f");
  const properties = [
    `{"token":"${pk_live}","api_key":"mine","a":1.0,"note":"x${sk_live}yz","${sk_live}":[{"b":"${escaped}"}],`,
    `"$set":{"key":"${sk_live}"}}`,
  ].join("");
  const made = `${sk_live.slice(0, -1)}${sk_live.endsWith("0") ? "1" : "0"}`;
  const plain = `{"made":"${made}","n":1.50,"t":"\\u0041"}`;
  const body = `{"api_key":"${pk_live}","batch":[{"event":"e","distinct_id":"u","properties":${properties}},{"event":"e","distinct_id":"u","properties":${plain}}]}`;
  expect((await call("POST", "/batch/", { body })).status).toBe(200);
  const stored = await env.DB.prepare("SELECT properties FROM analytics_events WHERE environment_id = ? ORDER BY seq")
    .bind(app.environments.live.id)
    .all<{ properties: string }>();
  const hint = keyHint(sk_live);
  expect(stored.results.map((row) => row.properties)).toEqual([
    `{"a":1,"note":"x${hint}yz","${hint}":[{"b":"${hint}"}],"$set":{"key":"${hint}"}}`,
    JSON.stringify(JSON.parse(plain)),
  ]);
  const people = await env.DB.prepare("SELECT * FROM distinct_ids WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .all();
  expect(JSON.stringify(people.results)).not.toContain(sk_live);
});
