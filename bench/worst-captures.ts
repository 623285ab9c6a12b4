import { gzipSync } from "node:zlib";
import { writeKey } from "../src/db/key-form.ts";
import { measureJson } from "../src/lib/json.ts";
import { countPeopleChanges, idsNamedBy } from "../src/people/capture/event.ts";
import { APP_ID, PUBLISHABLE_KEY, SECRET_KEY } from "./serve.ts";

/** A request whose cost must be bounded, whoever sends it. */
export interface Shape {
  readonly name: string;
  readonly path: string;
  /** POST by default. */
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** Makes the body again for each time that it is sent, if the same body would be a replay. */
  readonly makeBody?: () => Uint8Array;
  /** The size of the body after it is unpacked, if it is packed. */
  readonly unpackedBytes?: number;
  /** The memory that the request may take beside its body, if not the usual limit. */
  readonly bytesMax?: number;
  /** The CPU that the request may take, if not the usual limit. */
  readonly cpuSecondsMax?: number;
  /** Bodies that are sent first, to create the state that the request meets. */
  readonly before?: readonly Uint8Array[];
}

export const MIB = 1024 * 1024;
/** The limit for a request without a valid key: it is rejected before its body is unpacked or parsed (L2). */
const UNKNOWN_CPU_SECONDS_MAX = 0.1;

export const utf8 = (text: string) => new TextEncoder().encode(text);
export const times = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));
/** `head`, then as many parts as fit, then `tail`. */
export const filled = (head: string, part: string, tail: string, bytes: number) =>
  head + part.repeat(Math.floor((bytes - head.length - tail.length - 2) / utf8(part).length)) + tail;

export const FORM = { "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin" };
export const bearer = (key: string) => ({ authorization: `Bearer ${key}`, "content-type": "application/json" });

const device = (n: number) => `0194685f-8a3c-7d11-9f2b-${`${n}`.padStart(12, "0")}`;
const longId = (n: number) => `${n}`.padStart(6, "0") + "€".repeat(194);
const batchOf = (events: readonly string[], key = PUBLISHABLE_KEY) => `{"api_key":"${key}","batch":[${events.join()}]}`;
const eventOf = (id: string, properties: string, name = "e") =>
  `{"event":"${name}","distinct_id":"${id}","properties":${properties}}`;
const identify = (id: string, other: string) => eventOf(id, `{"$anon_distinct_id":"${other}"}`, "$identify");
const setting = (id: string, properties: string) => eventOf(id, `{"$set":${properties}}`);
const setOf = (count: number, from = 0) => `{${times(count, (n) => `"${(n + from).toString(36)}":${n % 10}`).join()}}`;
/** As many events as a body may have (L1): 10,000, in 10 MiB, and so on. */
function fullBatch(make: (n: number) => string, key?: string): string {
  const events: string[] = [];
  let [bytes, values, escapes, idBytes, changes] = [200, 10, 0, 0, 0];
  for (let n = 0; n < 10_000; n++) {
    const event = make(n);
    const size = measureJson(utf8(event));
    bytes += utf8(event).length + 1;
    values += size.values + 1;
    escapes += size.escapes;
    for (const id of idsNamedBy(JSON.parse(event))) idBytes += utf8(id).length;
    changes += countPeopleChanges(JSON.parse(event));
    if (
      bytes > 10 * MIB ||
      values > 100_000 ||
      escapes > 1e6 ||
      idBytes > MIB ||
      (key === undefined && changes > 20_000)
    )
      break;
    events.push(event);
  }
  return batchOf(events, key);
}

const packed = (name: string, path: string, text: string, others: Partial<Shape> = {}): Shape => ({
  ...{ name, path, body: gzipSync(text), unpackedBytes: utf8(text).length, ...others },
});

const many = setOf(1_000, 1296);
const quotes = `{"a":"${'\\"'.repeat(130_000)}€"}`;
const deep = `{"a":${"[".repeat(890)}${"]".repeat(890)}}`;
const tenMega = 10 * MIB;
const levels = (bytes: number) => "[".repeat(bytes / 2) + "]".repeat(bytes / 2);

const captures: Readonly<Record<string, () => string>> = {
  "a list of 3 million objects, no key": () => filled("[", "{},", "{}]", tenMega),
  "5 million levels, no key": () => levels(tenMega),
  "numbers, and one of many digits": () =>
    filled(`{"api_key":"${PUBLISHABLE_KEY}","n":12345678901234567890,"x":[`, "1,", "1]}", tenMega),
  "a million names": () => filled(`{"api_key":"${PUBLISHABLE_KEY}","x":{`, '"ab":1,', '"a":1}}', tenMega),
  "10,000 events without properties": () => batchOf(times(10_000, (n) => eventOf(`id-${n % 1_000}`, "{}"))),
  "10,000 events of ten thousand ids": () => batchOf(times(10_000, (n) => eventOf(`id-${n}`, "{}"))),
  "10,000 events that are malformed": () => batchOf(times(10_000, () => "[]")),
  "10,000 events, each with the key": () =>
    `[${times(10_000, (n) => eventOf(`id-${n % 1_000}`, `{"token":"${PUBLISHABLE_KEY}"}`)).join()}]`,
  "a thousand properties an event": () => fullBatch(() => eventOf("one", many)),
  "a thousand $set an event, of one id": () => fullBatch((n) => setting("one", setOf(1_000, 1296 + (n % 2)))),
  "40 $set an event, of one id": () => fullBatch((n) => setting("one", setOf(40, n))),
  "40 $set an event, of a thousand ids": () => fullBatch((n) => setting(`id-${n % 1_000}`, setOf(40, n))),
  "$unset of many names": () => fullBatch(() => eventOf("one", `{"$unset":[${times(19_900, () => '"a"').join()}]}`)),
  "256 KiB of quotes an event": () => fullBatch(() => eventOf("one", quotes)),
  "900 levels an event": () => fullBatch(() => eventOf("one", deep)),
  "names that are escaped": () => fullBatch(() => eventOf("one", filled("{", '"\\u0061":1,', '"a":1}', 99_000))),
  "a name of its own in each object": () =>
    fullBatch((n) => eventOf("one", `{"x":[${times(900, (m) => `{"${(n * 900 + m).toString(36)}":1}`).join()}]}`)),
  "a $set of its own in each event": () => fullBatch((n) => setting("one", `{"${n.toString(36)}":1}`)),
  "numbers of many digits": () =>
    batchOf(times(24, () => eventOf("one", `{"x":[${times(990, () => "1234567890.1234567").join()}]}`))),
  "names of numbers of many digits": () =>
    batchOf(times(12, (n) => setting("one", setOf(1_900, 2_000 * n).replaceAll(/:\d/g, ":1234567890.1234567")))),
  "10 MiB of text": () => fullBatch(() => eventOf("one", `{"a":"${"a".repeat(258_000)}"}`)),
  "keys with wrong checksums": () =>
    fullBatch(() => eventOf("one", `{"a":"${`pk_live_${"a".repeat(60)}`.repeat(3_800)}"}`)),
  "keys with right checksums": () => fullBatch(() => eventOf("one", `{"a":"${PUBLISHABLE_KEY.repeat(3_900)}"}`)),
  "999 links of one id, twice": () => fullBatch((n) => identify("ana", device(n % 999))),
  "500 links of long ids": () => fullBatch((n) => identify(longId(n % 500), device(n % 500))),
  // With a secret key, because these name more distinct ids than a publishable key's requests may (L1).
  "secret key: events of many ids": () => fullBatch((n) => `{"event":"e","distinct_id":"s-${n}"}`, SECRET_KEY),
  "secret key: links of one id of many ids": () => fullBatch((n) => identify("server", device(n)), SECRET_KEY),
  "secret key: links of long ids of many ids": () => fullBatch((n) => identify(longId(n), device(n)), SECRET_KEY),
  "secret key: $set of many ids": () => fullBatch((n) => setting(`s-${n}`, setOf(40, n)), SECRET_KEY),
};

const v1Batch = (count: number, properties: (n: number) => string, uuid?: string) =>
  `{"batch":[${times(count, (n) => `{"uuid":"${uuid ?? device(n)}",${eventOf(`v1-${n % 100}`, properties(n)).slice(1)}`).join()}]}`;

/** Captures of the newer version of PostHog's protocol. */
const capturesV1: Readonly<Record<string, () => string>> = {
  "10,000 events": () => v1Batch(10_000, () => "{}"),
  "10,000 events of one uuid": () => v1Batch(10_000, () => "{}", "0194685f-8a3c-7d11-9f2b-000000000000"),
  "a thousand properties an event": () => v1Batch(99, () => setOf(1_000)),
  "999 links, ten times": () => `{"batch":[${times(9_990, (n) => identify("v1", device(n % 999))).join()}]}`,
  "40 $set an event": () => v1Batch(390, (n) => `{"$set":${setOf(40, n)}}`),
  lists: () => filled('{"batch":[', "[],", "[]]}", tenMega),
  levels: () => `{"batch":${levels(tenMega - 40)}}`,
};

const flags: Readonly<Record<string, () => string>> = {
  lists: () => filled(`{"api_key":"${PUBLISHABLE_KEY}","x":[`, "[],", "[]]}", tenMega),
  levels: () => levels(tenMega),
  names: () => filled(`{"api_key":"${PUBLISHABLE_KEY}","x":{`, '"ab":1,', '"a":1}}', tenMega),
  "one long id": () => `{"api_key":"${PUBLISHABLE_KEY}","distinct_id":"${"x".repeat(tenMega - 200)}"}`,
};

/** Requests of PostHog's clients. */
export function captureShapes(): Shape[] {
  const heldBatch = (from: number, count: number, properties: string) =>
    batchOf(times(count, (n) => setting(`held-${from + n}`, properties)));
  /** Ids that have 64 KiB of properties, 40 in a body. */
  const held = (count: number): Shape =>
    packed(`capture: ${count} ids that hold 64 KiB`, "/batch/", heldBatch(0, count, '{"a":1}'), {
      before: times(count / 40, (n) => gzipSync(heldBatch(40 * n, 40, `{"h":"${"€".repeat(21_000)}"}`))),
    });
  const base64 = Buffer.from(filled("[", "{},", "{}]", 700_000)).toString("base64");
  const headers = { ...bearer(PUBLISHABLE_KEY), "content-encoding": "gzip" };
  return [
    ...Object.entries(captures).map(([name, make]) => packed(`capture: ${name}`, "/batch/", make())),
    {
      ...{ name: "capture: gzip of 1 GiB", path: "/batch/", unpackedBytes: tenMega },
      body: gzipSync(Buffer.alloc(1024 * MIB), { level: 9 }).subarray(0, MIB),
    },
    ...[120, 240].map(held),
    { name: "capture: base64 in a form", path: "/batch/", headers: FORM, body: utf8(`a&data=${base64}`) },
    ...Object.entries(capturesV1).map(([name, make]) =>
      packed(`capture v1: ${name}`, "/i/v1/analytics/events", make(), { headers }),
    ),
    ...Object.entries(flags).map(([name, make]) => packed(`flags: ${name}`, "/flags/?v=2", make())),
  ];
}

/** Requests with unknown keys, or without a key. */
export function unknownShapes(): Shape[] {
  const made = (kind: "secret" | "publishable") =>
    writeKey(kind, { id: 1, appId: APP_ID, mode: "live" }, "m".repeat(22));
  const shape = (name: string, path: string, body: Uint8Array, headers: Readonly<Record<string, string>> = {}) => ({
    ...{ name: `unknown: ${name}`, path, body, headers, cpuSecondsMax: UNKNOWN_CPU_SECONDS_MAX },
  });
  const digits = "1".repeat(MIB - 100);
  const bodies: Readonly<Record<string, string>> = {
    "a megabyte of digits": `[${digits}]`,
    "long numbers": filled("[", "12345678901234567890,", "1]", MIB),
    "a long number and many": filled("[12345678901234567890,", "1,", "1]", MIB),
    "64 KiB of a long number and many": filled("[12345678901234567890,", "1,", "1]", 64 * 1024),
    names: `{${times(90_000, (n) => `"${n.toString(36)}":1`).join()}}`,
  };
  const batch = (key: string) =>
    gzipSync(filled(`{"api_key":"${key}","batch":[`, '{"event":"e","distinct_id":"u"},', "{}]}", tenMega));
  const malformed = bearer(`sk_live_${"1".repeat(8_000)}`);
  const signature = { "stripe-signature": "none" };
  return [
    ...Object.entries(bodies).flatMap(([name, text]) => [
      shape(`${name}, an unknown key`, "/api/v1/usage/events", utf8(text), bearer(made("secret"))),
      shape(`${name}, a malformed key`, "/api/v1/usage/events", utf8(text), malformed),
    ]),
    shape("a key of a megabyte in a batch", "/batch/", utf8(`{"api_key":"sk_live_${digits}","batch":[]}`)),
    shape("gzip to /e/", "/e/", batch(made("publishable"))),
    shape("gzip to /i/v1", "/i/v1/analytics/events", batch("x"), bearer(made("publishable"))),
    shape("gzip to /flags/", "/flags/", batch(made("publishable"))),
    shape("a malformed signature of Stripe", `/api/v1/stripe/${APP_ID}/live`, utf8(`[${digits}]`), signature),
    shape("a sign-in with a malformed name", "/admin/sign-in", utf8("name=%00&token=none"), FORM),
    { ...shape("health", "/health", new Uint8Array()), method: "GET" },
  ];
}
