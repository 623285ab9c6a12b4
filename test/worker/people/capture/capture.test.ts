import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { utf8 } from "../../../../src/lib/encoding.ts";
import { HOUR_MS } from "../../../../src/lib/time.ts";
import { base64, gzip } from "../../../support/encode.ts";
import { hookedD1 } from "../../../support/hooked-d1.ts";
import { claimsOf, eventsOf, exportOf, idOf, idsOf, personIds, send } from "../../../support/people.ts";
import { expectError } from "../../../support/rejections.ts";
import { type Client, Clock, makeApp, makeClient, type TestApp } from "../../../support/world.ts";

const FORM = { "content-type": "application/x-www-form-urlencoded" };
const TEXT = { "content-type": "text/plain" };

async function world(): Promise<{ call: Client; clock: Clock; app: TestApp; key: string }> {
  const clock = new Clock();
  const app = await makeApp();
  return { call: makeClient(clock), clock, app, key: app.keys.pk_live };
}

const PATHS = ["/batch", "/e", "/i/v0/e", "/capture", "/track"].flatMap((path) => [path, `${path}/`]);

it.each(PATHS)(
  "a request of PostHog's clients is accepted at %s, with a bookmark in its response and open to every origin",
  async (path) => {
    const { call, app, key } = await world();
    const answer = await call("POST", `${path}?_=1&ver=1.418.0&ip=0`, {
      body: { api_key: key, batch: [{ event: "seen", distinct_id: "ana" }] },
      headers: { origin: "https://shop.example" },
    });
    expect([answer.status, answer.body]).toEqual([200, { status: 1 }]);
    expect(answer.headers.get("x-d1-bookmark")).toMatch(/^[0-9a-f-]{59}$/);
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect(await eventsOf(app, "ana")).toHaveLength(1);
  },
);

const inProperties = (key: string) => ({ event: "seen", properties: { token: key, distinct_id: "ana" } });
const SHAPES: [string, (key: string) => unknown][] = [
  ["a batch", (key) => ({ api_key: key, batch: [{ event: "seen", distinct_id: "ana" }] })],
  ["one event with api_key", (key) => ({ api_key: key, event: "seen", distinct_id: "ana" })],
  ["one event with token", (key) => ({ token: key, event: "seen", $distinct_id: "ana" })],
  ["one event with its key in its properties", inProperties],
  ["a bare list", (key) => [inProperties(key)]],
  ["a batch whose events carry the key", (key) => ({ batch: [inProperties(key)] })],
];
it.each(SHAPES)("a request of PostHog's clients may be %s", async (_shape, make) => {
  const { call, app, key } = await world();
  expect((await call("POST", "/e/", { body: make(key) })).status).toBe(200);
  expect(await eventsOf(app, "ana")).toHaveLength(1);
});

const PACKINGS: [string, (json: string) => Promise<{ body: string | Uint8Array; headers: Record<string, string> }>][] =
  [
    ["plain as text", async (json) => ({ body: json, headers: TEXT })],
    ["gzip with a header", async (json) => ({ body: await gzip(json), headers: { "content-encoding": "gzip" } })],
    ["gzip as text without a header", async (json) => ({ body: await gzip(json), headers: TEXT })],
    ["base64 in a form", async (json) => ({ body: `data=${encodeURIComponent(base64(utf8(json)))}`, headers: FORM })],
    ["base64 in a form, not escaped", async (json) => ({ body: `data=${base64(utf8(json))}`, headers: FORM })],
    ["JSON in a form", async (json) => ({ body: `ver=1&data=${encodeURIComponent(json)}`, headers: FORM })],
    [
      "gzip in base64 in a form",
      async (json) => ({ body: `data=${encodeURIComponent(base64(await gzip(json)))}`, headers: FORM }),
    ],
    ["bare base64", async (json) => ({ body: base64(utf8(json)), headers: TEXT })],
  ];
it.each(PACKINGS)("a request of PostHog's clients may be encoded as %s", async (_packing, pack) => {
  const { call, app, key } = await world();
  const text = "ünïcode ✓ ~~??>>";
  const { body, headers } = await pack(
    JSON.stringify({ api_key: key, batch: [{ event: "seen", distinct_id: "ana", properties: { text } }] }),
  );
  expect((await call("POST", "/e/?compression=gzip-js", { body, headers })).status).toBe(200);
  expect(JSON.parse((await eventsOf(app, "ana"))[0]?.properties ?? "")).toEqual({ text });
});

it("a request of PostHog's clients is limited to 1 MiB as received, and to 10 MiB unpacked", async () => {
  const { call, app, key } = await world();
  const sized = (bytes: number) =>
    JSON.stringify({
      api_key: key,
      batch: Array.from({ length: Math.ceil(bytes / 250_000) }, () => ({
        event: "seen",
        distinct_id: "ana",
        properties: { text: "x".repeat(250_000) },
      })),
    });
  expectError(await call("POST", "/batch/", { body: sized(1_100_000) }), "payload_too_large");
  expectError(await call("POST", "/batch/", { body: await gzip(sized(11_000_000)) }), "payload_too_large");
  expect((await call("POST", "/batch/", { body: await gzip(sized(9_000_000)) })).status).toBe(200);
  expect((await eventsOf(app, "ana")).map((row) => row.seq)).toEqual(Array.from({ length: 36 }, (_, n) => n + 1));
});

it("a request of PostHog's clients is rejected with 413 above ten thousand events, so that clients send half", async () => {
  const { call, key } = await world();
  const batch = Array.from({ length: 10_001 }, () => ({ event: "e", distinct_id: "d" }));
  expectError(await call("POST", "/batch/", { body: { api_key: key, batch } }), "payload_too_large");
});

it.each([
  ["truncated gzip", async () => (await gzip(JSON.stringify({ batch: [] }))).slice(0, 20), TEXT],
  ["a form with an escape that is not UTF-8", async () => "data={%22batch%22:[%22%FF%22]}", FORM],
  ["bytes that are not UTF-8", async () => new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d]), TEXT],
])("a request of PostHog's clients is refused as invalid_request when it is %s", async (_what, body, headers) => {
  const { call } = await world();
  expectError(await call("POST", "/batch/", { body: await body(), headers }), "invalid_request");
});

it("a request of PostHog's clients is invalid_key when it is a text without a key that is not JSON", async () => {
  const { call } = await world();
  for (const body of ["", "ab=", "event=seen", '"seen"', "17", "a{"])
    expectError(await call("POST", "/batch/", { body, headers: TEXT }), "invalid_key");
  const twice = await gzip(String.fromCharCode(0x1f, 0x8b));
  expectError(await call("POST", "/batch/", { body: twice, headers: TEXT }), "invalid_key");
  for (const body of ["ver=1", "data=YWJj"])
    expectError(await call("POST", "/batch/", { body, headers: FORM }), "invalid_key");
});

it("a request of PostHog's clients is checked for its key before its shape, and for its shape before its events", async () => {
  const { call, key } = await world();
  for (const body of ['"seen"', "17", "[]", "{}", '{"batch":[]}', '{"batch":7}', '{"api_key":"phc_1","batch":[]}']) {
    expectError(await call("POST", "/batch/", { body }), "invalid_key");
  }
  for (const batch of [[], {}, "seen", null]) {
    expectError(await call("POST", "/batch/", { body: { api_key: key, batch } }), "invalid_request", "batch");
  }
});

it("a request of PostHog's clients is rejected without a valid key, and with a secret one from a browser, and nothing is stored", async () => {
  const { call, app, key } = await world();
  const sending = (api_key: unknown) =>
    call("POST", "/batch/", { body: { api_key, batch: [{ event: "seen", distinct_id: "ana" }] } });
  for (const other of [undefined, null, "", 7, "phc_1", `${key}x`, `${key.slice(0, -1)}!`]) {
    expectError(await sending(other), "invalid_key");
  }
  const batch = [{ event: "seen", distinct_id: "ana" }];
  for (const origin of ["https://shop.example", "null", ""]) {
    const sent = { body: { api_key: app.keys.sk_live, batch }, headers: { origin, "sec-fetch-site": "cross-site" } };
    expectError(await call("POST", "/batch/", sent), "forbidden");
  }
  expect(await eventsOf(app, "ana")).toEqual([]);
});

it("a request of PostHog's clients gets its preflight cached for a day, and 405 with another method", async () => {
  const { call } = await world();
  const preflight = await call("OPTIONS", "/e/", {
    headers: {
      origin: "https://shop.example",
      "access-control-request-method": "POST",
      "access-control-request-headers": "content-type",
    },
  });
  expect(preflight.status).toBe(204);
  expect(preflight.headers.get("access-control-allow-headers")).toContain("content-encoding");
  expect(preflight.headers.get("access-control-max-age")).toBe("86400");
  const got = await call("GET", "/batch/");
  expectError(got, "method_not_allowed");
  expect(got.headers.get("allow")).toBe("OPTIONS, POST");
});

it("an event is stored once for its UUID, even if it repeats in the request, in another one, or concurrently", async () => {
  const { call, app, key } = await world();
  const uuid = "0190A5B4-1111-7ABC-8def-0123456789ab";
  const event = { uuid, event: "seen", distinct_id: "ana", properties: { $set: { n: 1 } } };
  await send(call, key, [event, { ...event, uuid: uuid.toLowerCase() }, { ...event, uuid: "" }]);
  await Promise.all(Array.from({ length: 8 }, () => send(call, key, [event])));
  const stored = await eventsOf(app, "ana");
  expect(stored.map((row) => row.seq)).toEqual([1, 2]);
  expect(stored[0]?.uuid).toBe(uuid.toLowerCase());
  expect(stored[1]?.uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

it("an event is stored and exported as the same JSON value", async () => {
  const { call, app, key } = await world();
  const deep = `${'{"a":'.repeat(800)}null${"}".repeat(800)}`;
  const properties = `{"__proto__":{"x":1},"constructor":"c","":"empty","big":9007199254740993,"two53":9007199254740992,
      "huge":1e400,"zero":-0.0,"ls":"\u2028\u2029","emoji":"👩‍👩‍👧","nfc":"\u00e9","nfd":"e\u0301","lone":"\\ud83d",
      "\\udc00key":[1,2.50,true,null],"nul":"\\u0000","deep":${deep}}`;
  const body = `{"api_key":"${key}","batch":[{"event":"seen","distinct_id":"ana","properties":${properties}}]}`;
  expect((await call("POST", "/batch/", { body })).status).toBe(200);
  const text = (await eventsOf(app, "ana"))[0]?.properties ?? "";
  expect(JSON.parse(text)).toEqual(JSON.parse(properties));
  expect(Object.keys(JSON.parse(text))[0]).toBe("__proto__");
  for (const kept of ['"big":9007199254740993,', '"huge":1e400,', '"lone":"\\ud83d"', '"\\udc00key"']) {
    expect(text).toContain(kept);
  }
  expect(await env.DB.prepare("SELECT json_valid(?) AS valid").bind(text).first()).toEqual({ valid: 1 });

  // The tests' validator fails on a key that a URI cannot hold. Purser does not.
  const exportable = properties.replace('"\\udc00key"', '"key"');
  const again = `{"api_key":"${key}","batch":[{"event":"seen","distinct_id":"bob","properties":${exportable}}]}`;
  expect((await call("POST", "/batch/", { body: again })).status).toBe(200);
  const document = await exportOf(call, app, "bob");
  expect(document.events.analytics[0]?.properties).toEqual(JSON.parse(exportable));
});

it("an event keeps the $set and $set_once beside its properties, and applies them unchanged to the person", async () => {
  const { call, app, key } = await world();
  const event =
    '{"event":"seen","distinct_id":"ana","$set":{"__proto__":{"admin":true}},"$set_once":{"n":9007199254740993}';
  const body = `{"api_key":"${key}","batch":[${event},"properties":{"$set":{"b":1}}}]}`;
  expect((await call("POST", "/batch/", { body })).status).toBe(200);
  const stored = (await eventsOf(app, "ana"))[0]?.properties;
  expect(stored).toBe('{"$set":{"b":1,"__proto__":{"admin":true}},"$set_once":{"n":9007199254740993}}');
  expect((await idOf(app, "ana"))?.properties).toBe('{"n":9007199254740993,"b":1,"__proto__":{"admin":true}}');
});

it("an event may have a number as its distinct id, which is read by its digits", async () => {
  const { call, app, key } = await world();
  const body = `{"api_key":"${key}","batch":[{"event":"a","distinct_id":42},{"event":"b","distinct_id":12345678901234567890}]}`;
  expect((await call("POST", "/batch/", { body })).status).toBe(200);
  expect(await eventsOf(app, "42")).toHaveLength(1);
  expect(await eventsOf(app, "12345678901234567890")).toHaveLength(1);
});

const good = { event: "seen", distinct_id: "ana" };
const deep = JSON.parse(`${"[".repeat(950)}${"]".repeat(950)}`);
const MALFORMED: [string, unknown, string][] = [
  ["a number instead of an event", 7, "batch[0]"],
  ["no event name", { distinct_id: "ana" }, "batch[0].event"],
  ["an empty event name", { ...good, event: "" }, "batch[0].event"],
  ["an event name of 201 code points", { ...good, event: "😀".repeat(201) }, "batch[0].event"],
  ["no distinct id", { event: "seen" }, "batch[0].distinct_id"],
  ["an empty distinct id", { ...good, distinct_id: "" }, "batch[0].distinct_id"],
  ["a distinct id of 201 code points", { ...good, distinct_id: "😀".repeat(201) }, "batch[0].distinct_id"],
  ["a lone surrogate in its distinct id", { ...good, distinct_id: "a\ud800" }, "batch[0].distinct_id"],
  ["a control character in its distinct id", { ...good, distinct_id: "a\u0085b" }, "batch[0].distinct_id"],
  ["an object for a distinct id", { ...good, distinct_id: {} }, "batch[0].distinct_id"],
  ["an invalid UUID", { ...good, uuid: "1234" }, "batch[0].uuid"],
  ["a list for properties", { ...good, properties: [] }, "batch[0].properties"],
  ["properties of 950 levels", { ...good, properties: { deep } }, "batch[0].properties"],
];
it.each(MALFORMED)(
  "an event with %s is skipped, and the others of its batch are stored",
  async (_what, event, param) => {
    const { call, app, key } = await world();
    const mixed = await call("POST", "/batch/", { body: { api_key: key, batch: [event, good] } });
    expect(mixed.status).toBe(200);
    expect(mixed.body.refused).toEqual([
      { index: 0, param: param.replace(/^batch\[0\]\.?/, ""), message: expect.any(String) },
    ]);
    expect(await eventsOf(app, "ana")).toHaveLength(1);
    const alone = await call("POST", "/batch/", { body: { api_key: key, batch: [event] } });
    expectError(alone, "invalid_request");
    expect(await eventsOf(app, "ana")).toHaveLength(1);
  },
);

it("an event accepts ids and names of 200 code points completely", async () => {
  const { call, app, key } = await world();
  const long = "😀".repeat(200);
  await send(call, key, [{ event: long, distinct_id: long }]);
  expect((await eventsOf(app, long))[0]?.event).toBe(long);
});

it("an event may have 256 KiB of properties, including a $set beside them, and is rejected alone above that", async () => {
  const { call, app, key } = await world();
  const sized = { ...good, properties: { text: `${"é".repeat(131_066)}x` } };
  const at = JSON.stringify(sized.properties);
  expect(new TextEncoder().encode(at).length).toBe(262_144);
  const beside = { ...sized, $set: { a: 1 } };
  const batch = [sized, { ...good, properties: { text: "x".repeat(262_144) } }, beside, good];
  const answer = await call("POST", "/batch/", { body: await gzip(JSON.stringify({ api_key: key, batch })) });
  expect(answer.body.refused).toEqual(
    [1, 2].map((index) => ({ index, param: "properties", message: "is larger than 262144 bytes" })),
  );
  expect((await eventsOf(app, "ana")).map((row) => row.properties)).toEqual([at, "{}"]);
});

it("an event with properties larger than a row may be is rejected alone", async () => {
  const { call, app, key } = await world();
  const batch = [{ ...good, properties: { text: "x".repeat(1_100_000) } }, good];
  const answer = await call("POST", "/batch/", { body: await gzip(JSON.stringify({ api_key: key, batch })) });
  expect(answer.body.refused).toEqual([{ index: 0, param: "properties", message: expect.any(String) }]);
  expect(await eventsOf(app, "ana")).toHaveLength(1);
});

it("an event is stored or rejected, and never too large for D1, with properties of any size", async () => {
  const clock = new Clock();
  const app = await makeApp();
  // Hosted D1 rejects values above 2 MB. The local D1 accepts them.
  const hosted = hookedD1(
    env.DB,
    async () => {},
    (values) => {
      for (const value of values) {
        if (typeof value === "string" && utf8(value).length > 2_000_000) throw new Error("D1_ERROR: string too big");
      }
    },
  );
  const call = makeClient(clock, { DB: hosted });
  // Each quote is escaped twice.
  for (const quotes of [32_700, 65_500, 131_060, 131_072, 262_144]) {
    const properties = { $set: { text: '"'.repeat(quotes) } };
    const batch = [
      ...Array.from({ length: 3 }, () => ({ event: "seen", distinct_id: `ana-${quotes}`, properties })),
      good,
    ];
    const body = await gzip(JSON.stringify({ api_key: app.keys.pk_live, batch }));
    expect((await call("POST", "/batch/", { body })).status, `${quotes}`).toBe(200);
    const isStored = JSON.stringify(properties).length <= 262_144;
    expect(await eventsOf(app, `ana-${quotes}`), `${quotes}`).toHaveLength(isStored ? 3 : 0);
  }
  expect((await idOf(app, "ana-32700"))?.properties).toHaveLength(65_411);
  expect((await idOf(app, "ana-65500"))?.properties).toBeNull();
});

it("an event has its client's time, corrected by Purser's clock", async () => {
  const { call, app, clock, key } = await world();
  const at = (ms: number) => new Date(clock.ms + ms).toISOString();
  const cases: [Record<string, unknown>, string | number | undefined, number][] = [
    [{}, undefined, 0],
    [{ timestamp: at(-HOUR_MS) }, undefined, -HOUR_MS],
    [{ timestamp: at(-HOUR_MS) }, at(10_000), -HOUR_MS - 10_000],
    [{ timestamp: at(-HOUR_MS), properties: { $ignore_sent_at: true } }, at(10_000), -HOUR_MS],
    [{ offset: 5_000, timestamp: at(-HOUR_MS) }, at(10_000), -5_000],
    [{ timestamp: at(-HOUR_MS).replace("Z", "") }, undefined, -HOUR_MS],
    [{ timestamp: at(22 * HOUR_MS) }, undefined, 22 * HOUR_MS],
    [{ timestamp: at(9_000 * HOUR_MS) }, at(HOUR_MS), 8_999 * HOUR_MS],
    [{ timestamp: "yesterday" }, at(0), 0],
    [{ timestamp: clock.ms - HOUR_MS }, undefined, -HOUR_MS],
    [{ timestamp: (clock.ms - HOUR_MS) / 1_000 }, undefined, -HOUR_MS],
    [{ timestamp: (clock.ms - HOUR_MS) / 1_000 }, (clock.ms + 10_000) / 1_000, -HOUR_MS - 10_000],
    [{ timestamp: 99_999_999_999 }, undefined, 99_999_999_999_000 - clock.ms],
    [{ timestamp: 100_000_000_000 }, undefined, 0],
  ];
  for (const [index, [event, sent_at]] of cases.entries()) {
    const batch = [{ event: "seen", distinct_id: `time-${index}`, ...event }];
    expect((await call("POST", "/batch/", { body: { api_key: key, batch, sent_at } })).status).toBe(200);
  }
  for (const [index, [, , expectedMs]] of cases.entries()) {
    expect((await eventsOf(app, `time-${index}`))[0]?.timestampMs, `case ${index}`).toBe(clock.ms + expectedMs);
  }
});

it("an event sent as personless creates a record of its id, which belongs to nobody until it is linked", async () => {
  const { call, app, key } = await world();
  const device = "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b";
  const properties = { $process_person_profile: false, $set: { a: 1 }, $anon_distinct_id: "other" };
  await send(call, key, [{ event: "seen", distinct_id: device, properties }]);
  expect(await idsOf(app)).toMatchObject([
    { distinctId: device, eventCount: 1, isSender: 0, isIdentified: 0, claimedBy: null, properties: null },
  ]);
  expect((await exportOf(call, app, device)).person).toBeNull();
  await send(call, key, [{ event: "$identify", distinct_id: "ana", properties: { $anon_distinct_id: device } }]);
  expect(await personIds(call, app, "ana")).toEqual(["ana", device]);
  expect(await personIds(call, app, device)).toEqual([device]);
});

it("an event that is a personless $identify makes its id a user, which nobody can link, and sets nothing", async () => {
  const { call, app, key } = await world();
  const device = "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b";
  const properties = { $process_person_profile: false, $set: { a: 1 }, $anon_distinct_id: "other" };
  await send(call, key, [{ event: "$identify", distinct_id: device, properties }]);
  expect(await idsOf(app)).toMatchObject([{ distinctId: device, claimedBy: null, properties: null }]);
  await send(call, key, [{ event: "$identify", distinct_id: "ana", properties: { $anon_distinct_id: device } }]);
  expect(await personIds(call, app, "ana")).toEqual(["ana"]);
});

it("an event is not visible to another application or mode, with the same ids and UUIDs", async () => {
  const { call, app, key } = await world();
  const other = await makeApp();
  const event = {
    uuid: crypto.randomUUID(),
    event: "$identify",
    distinct_id: "ana",
    properties: { $anon_distinct_id: "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b" },
  };
  for (const each of [key, app.keys.pk_test, other.keys.pk_live]) await send(call, each, [event]);
  for (const each of [app, other]) expect(await claimsOf(each)).toHaveLength(1);
  for (const each of [app, other]) expect(await eventsOf(each, "ana")).toHaveLength(1);
});

const PATH = "/i/v1/analytics/events";

it("a request of v1 is answered for each event by its UUID as it was sent", async () => {
  const { call, app, key } = await world();
  const uuids = Array.from({ length: 4 }, () => crypto.randomUUID());
  const base = { event: "seen", distinct_id: "ana", timestamp: "2026-01-15T11:00:00Z", options: {}, properties: {} };
  const batch = [
    { ...base, uuid: uuids[0] },
    { ...base, uuid: uuids[1]?.toUpperCase(), distinct_id: "a\u0000" },
    { ...base, uuid: uuids[2], event: "$identify", properties: { $anon_distinct_id: "guest" } },
    { ...base, uuid: uuids[3], event: "$create_alias", properties: { alias: "x".repeat(201) } },
    { ...base, uuid: "__proto__" },
  ];
  const answer = await call("POST", PATH, { key, body: { created_at: "2026-01-15T12:00:00Z", batch } });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("x-d1-bookmark")).not.toBeNull();
  expect(Object.entries(answer.body.results)).toEqual(
    expect.arrayContaining([
      [uuids[0], { result: "ok" }],
      [uuids[1]?.toUpperCase(), { result: "drop", details: expect.stringContaining("distinct_id") }],
      [uuids[2], { result: "warning", details: expect.any(String) }],
      [uuids[3], { result: "warning", details: expect.stringContaining("alias") }],
      ["__proto__", { result: "drop", details: expect.stringContaining("uuid") }],
    ]),
  );
  expect(await eventsOf(app, "ana")).toHaveLength(3);
  const again = await call("POST", `${PATH}/`, { key, body: { batch: [batch[0]] } });
  expect(again.body.results).toEqual({ [uuids[0] ?? ""]: { result: "ok" } });
  expect(await eventsOf(app, "ana")).toHaveLength(3);
});

it("a request of v1 stores v1's separate fields in the usual properties, and corrects the client's clock", async () => {
  const { call, app, clock, key } = await world();
  const at = (ms: number) => new Date(clock.ms + ms).toISOString();
  const event = {
    uuid: crypto.randomUUID(),
    event: "seen",
    distinct_id: "ana",
    timestamp: at(-60_000),
    session_id: "s1",
    options: { process_person_profile: false, cookieless_mode: true },
    properties: { a: 1 },
  };
  const headers = { "posthog-sdk-info": "posthog-node/5.70.0", "posthog-request-timestamp": at(5_000) };
  expect((await call("POST", PATH, { key, body: { batch: [event] }, headers })).status).toBe(200);
  const [stored] = await eventsOf(app, "ana");
  expect(stored?.timestampMs).toBe(clock.ms - 65_000);
  expect(JSON.parse(stored?.properties ?? "")).toEqual({
    a: 1,
    $lib: "posthog-node",
    $lib_version: "5.70.0",
    $session_id: "s1",
    $process_person_profile: false,
    $cookieless_mode: true,
  });
  expect((await idOf(app, "ana"))?.isSender).toBe(0);
});

it("a request of v1 is rejected before its body is read with an unknown key, or a secret one in a browser", async () => {
  const { call, app } = await world();
  expectError(await call("POST", PATH, { body: "no JSON" }), "invalid_key");
  expectError(await call("POST", PATH, { key: "pk_live_0000000000000000000000", body: "no JSON" }), "invalid_key");
  const headers = { origin: "https://shop.example", "sec-fetch-site": "cross-site" };
  expectError(await call("POST", PATH, { key: app.keys.sk_live, body: "no JSON", headers }), "forbidden");
  expectError(await call("POST", PATH, { key: app.keys.sk_live, body: "no JSON" }), "invalid_request", "body");
  expectError(await call("POST", PATH, { key: app.keys.pk_live, body: "no JSON" }), "invalid_request", "body");
  expectError(await call("POST", PATH, { key: app.keys.pk_live, body: {} }), "invalid_request", "batch");
  expectError(
    await call("POST", PATH, { key: app.keys.pk_live, body: { batch: [{}] } }),
    "invalid_request",
    "batch[0].uuid",
  );
});

it("the other routes of PostHog's clients accept a secret key from a server, and do not repeat it", async () => {
  const { call, app } = await world();
  const answer = await call("POST", "/flags/?v=2", { body: { token: app.keys.sk_live, distinct_id: "ana" } });
  expect(answer).toMatchObject({ status: 200, body: { flags: {} } });
  expect(JSON.stringify(answer.body)).not.toContain(app.keys.sk_live);
});

it("the other routes of PostHog's clients answer that nothing is enabled", async () => {
  const { call, key } = await world();
  for (const path of ["/flags/?v=2", "/flags", "/decide/?v=3"]) {
    const { status, body } = await call("POST", path, { body: { token: key, distinct_id: "ana" } });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      flags: {},
      featureFlags: {},
      errorsWhileComputingFlags: false,
      sessionRecording: false,
    });
  }
  const config = await call("GET", `/array/${key}/config?ip=0`);
  expect(config.body).toMatchObject({ token: key, supportedCompression: ["gzip-js", "base64"], surveys: false });
  expect(config.headers.get("x-d1-bookmark")).not.toBeNull();
  const script = await call("GET", `/array/${key}/config.js`);
  expect(script.headers.get("content-type")).toMatch(/^application\/javascript/);
  expect(script.body).toContain(JSON.stringify(config.body));
});

it("the other routes of PostHog's clients reject an unknown key, and serve no scripts", async () => {
  const { call, app } = await world();
  expectError(await call("POST", "/flags/?v=2", { body: { token: "phc_1" } }), "invalid_key");
  const headers = { origin: "https://shop.example", "sec-fetch-site": "cross-site" };
  expectError(await call("POST", "/decide/", { body: { api_key: app.keys.sk_live }, headers }), "forbidden");
  expectError(await call("GET", "/array/phc_1/config"), "invalid_key");
  expectError(await call("GET", `/array/${app.keys.sk_live}/config.js`), "forbidden");
  expectError(await call("GET", "/static/recorder.js"), "not_found");
});
