import { gzipSync } from "node:zlib";

/** A request of the worst kind: what it costs is bounded, whoever sends it. */
export interface Shape {
  readonly name: string;
  readonly path: string;
  /** POST unless it is said. */
  readonly method?: string;
  readonly body: Uint8Array;
  /** The body anew for each time that it is sent, where the same again would be a replay. */
  readonly bodyAnew?: () => Uint8Array;
  /** The bytes of the body once it is unpacked. */
  readonly bytes: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** What it may take beside its body, where that is not what all may. */
  readonly bytesMax?: number;
  /** CPU seconds that it may take, where that is not what all may. */
  readonly cpuSecondsMax?: number;
  /** Requests that make the state that it is about. */
  readonly before?: readonly Uint8Array[];
}

export const MIB = 1024 * 1024;
export const utf8 = (text: string) => new TextEncoder().encode(text);
export const filled = (head: string, part: string, tail: string, bytes: number) =>
  head + part.repeat(Math.floor((bytes - head.length - tail.length - 2) / utf8(part).length)) + tail;
const device = (n: number) => `0194685f-8a3c-7d11-9f2b-${`${n}`.padStart(12, "0")}`;
export const times = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));

function capture(name: string, text: string): Shape {
  const plain = utf8(text);
  return { name: `capture: ${name}`, path: "/batch/", body: gzipSync(plain), bytes: plain.length };
}

export function captureShapes(key: string): Shape[] {
  const batch = (events: readonly string[]) => `{"api_key":"${key}","batch":[${events.join()}]}`;
  const event = (id: string, properties: string, name = "e") =>
    `{"event":"${name}","distinct_id":"${id}","properties":${properties}}`;
  /** Events that fill 10 MiB. */
  const full = (bytesOfOne: number, make: (n: number) => string) =>
    batch(times(Math.min(10_000, Math.floor((10 * MIB - 200) / bytesOfOne)), make));
  const setOf = (count: number, from = 0) =>
    `{${times(count, (n) => `"${(n + from).toString(36)}":${n % 10}`).join()}}`;
  const many = setOf(1_000, 1296);
  const quotes = `{"a":"${'\\"'.repeat(130_000)}€"}`;
  const deep = `{"a":${"[".repeat(890)}${"]".repeat(890)}}`;
  const identify = (id: string, other: string) => event(id, `{"$anon_distinct_id":"${other}"}`, "$identify");
  const long = (n: number) => `${n}`.padStart(6, "0") + "€".repeat(194);
  const setting = (id: string, properties: string) => event(id, `{"$set":${properties}}`);
  const held = (from: number, count: number) =>
    gzipSync(batch(times(count, (n) => setting(`held-${from + n}`, `{"h":"${"€".repeat(21_000)}"}`))));
  const bomb: Shape = {
    ...capture("gzip of 1 GiB", ""),
    body: gzipSync(Buffer.alloc(1024 * MIB), { level: 9 }).subarray(0, MIB),
    bytes: 10 * MIB,
  };
  return [
    capture("a list of 3 million objects, no key", filled("[", "{},", "{}]", 10 * MIB)),
    capture("5 million levels, no key", "[".repeat(5 * MIB) + "]".repeat(5 * MIB)),
    capture(
      "numbers, and one of many digits",
      filled(`{"api_key":"${key}","n":12345678901234567890,"x":[`, "1,", "1]}", 10 * MIB),
    ),
    capture("a million names", filled(`{"api_key":"${key}","x":{`, '"ab":1,', '"a":1}}', 10 * MIB)),
    bomb,
    capture("10,000 events without properties", batch(times(10_000, (n) => event(`id-${n % 1_000}`, "{}")))),
    capture("10,000 events of ten thousand ids", batch(times(10_000, (n) => event(`id-${n}`, "{}")))),
    capture("10,000 events that are malformed", batch(times(10_000, () => "[]"))),
    capture(
      "10,000 events, each with the key",
      `[${times(10_000, (n) => event(`id-${n % 1_000}`, `{"token":"${key}"}`)).join()}]`,
    ),
    capture(
      "a thousand properties an event",
      full(many.length + 60, () => event("one", many)),
    ),
    capture(
      "a thousand $set an event, of one id",
      full(many.length + 70, (n) => setting("one", setOf(1_000, 1296 + (n % 2)))),
    ),
    capture(
      "40 $set an event, of one id",
      full(1_000, (n) => setting("one", setOf(40, n))),
    ),
    capture(
      "40 $set an event, of a thousand ids",
      full(1_000, (n) => setting(`id-${n % 1_000}`, setOf(40, n))),
    ),
    capture(
      "$unset of many names",
      full(200_000, () => event("one", `{"$unset":[${times(49_000, () => '"a"').join()}]}`)),
    ),
    capture(
      "256 KiB of quotes an event",
      full(quotes.length + 100, () => event("one", quotes)),
    ),
    capture(
      "900 levels an event",
      full(deep.length + 60, () => event("one", deep)),
    ),
    capture(
      "names that are escaped",
      full(100_000, () => event("one", filled("{", '"\\u0061":1,', '"a":1}', 99_000))),
    ),
    capture("999 links of one id, ten times", batch(times(9_990, (n) => identify("ana", device(n % 999))))),
    capture(
      "500 links of long ids, 16 times",
      full(1_300, (n) => identify(long(n % 500), device(n % 500))),
    ),
    {
      ...capture("100 ids that hold 64 KiB", batch(times(100, (n) => setting(`held-${n}`, '{"a":1}')))),
      before: [held(0, 50), held(50, 50)],
    },
    {
      ...capture("240 ids that hold 64 KiB", batch(times(240, (n) => setting(`held-${n}`, '{"a":1}')))),
      before: times(6, (n) => held(40 * n, 40)),
    },
    {
      ...capture("base64 in a form", ""),
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: utf8(`a&data=${Buffer.from(filled("[", "{},", "{}]", 700_000)).toString("base64")}`),
      bytes: MIB,
    },
  ];
}

/** Captures that name more distinct ids than a publishable key's may (L1). */
export function manyIdShapes(secretKey: string): Shape[] {
  const shapes: readonly (readonly [string, number, (n: number) => string])[] = [
    ["events", 60, (n) => `{"event":"e","distinct_id":"s-${n}"}`],
    ["links of one id", 150, (n) => linkOf("server", device(n))],
    ["links of long ids", 1_300, (n) => linkOf(`${n}`.padStart(6, "0") + "€".repeat(194), device(n))],
    ["$set", 1_000, (n) => `{"event":"e","distinct_id":"s-${n}","$set":{${times(40, (m) => `"k${m}":${n}`).join()}}}`],
  ];
  return shapes.map(([name, bytes, make]) =>
    capture(
      `secret key: ${name} of many ids`,
      `{"api_key":"${secretKey}","batch":[${times(Math.min(10_000, Math.floor((10 * MIB) / bytes)), make).join()}]}`,
    ),
  );
}
const linkOf = (id: string, other: string) =>
  `{"event":"$identify","distinct_id":"${id}","properties":{"$anon_distinct_id":"${other}"}}`;

/** Captures of the newer version of PostHog's protocol, and what its clients ask beside it. */
export function captureV1Shapes(key: string): Shape[] {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json", "content-encoding": "gzip" };
  const v1 = (name: string, text: string): Shape => ({
    ...capture(name, text),
    ...{ name: `capture v1: ${name}`, path: "/i/v1/analytics/events", headers },
  });
  const uuid = (n: number) => `0194685f-8a3c-7d11-8f2b-${`${n}`.padStart(12, "0")}`;
  const batch = (count: number, properties: (n: number) => string) =>
    `{"batch":[${times(count, (n) => `{"uuid":"${uuid(n)}","event":"e","distinct_id":"v1-${n % 100}","properties":${properties(n)}}`).join()}]}`;
  const names = `{${times(1_000, (n) => `"n${n}":${n}`).join()}}`;
  const flags = ([name, text]: readonly [string, string]): Shape => ({
    ...capture(name, text),
    name: `flags: ${name}`,
    path: "/flags/?v=2",
  });
  return [
    v1(
      "10,000 events",
      batch(10_000, () => "{}"),
    ),
    v1(
      "10,000 events of one uuid",
      `{"batch":[${times(10_000, () => `{"uuid":"${uuid(1)}","event":"e","distinct_id":"v"}`).join()}]}`,
    ),
    v1(
      "a thousand properties an event",
      batch(1_000, () => names),
    ),
    v1(
      "999 links, ten times",
      `{"batch":[${times(9_990, (n) => `{"uuid":"${uuid(n)}","event":"$identify","distinct_id":"v1","properties":{"$anon_distinct_id":"${device(n % 999)}"}}`).join()}]}`,
    ),
    v1(
      "40 $set an event",
      batch(10_000, (n) => `{"$set":{${times(40, (m) => `"k${m}":${n}`).join()}}}`),
    ),
    v1("lists", filled(`{"batch":[`, "[],", "[]]}", 10 * MIB)),
    v1("levels", `{"batch":${"[".repeat(5 * MIB - 20)}${"]".repeat(5 * MIB - 20)}}`),
    flags(["lists", filled(`{"api_key":"${key}","x":[`, "[],", "[]]}", 10 * MIB)]),
    flags(["levels", "[".repeat(5 * MIB) + "]".repeat(5 * MIB)]),
    flags(["names", filled(`{"api_key":"${key}","x":{`, '"ab":1,', '"a":1}}', 10 * MIB)]),
    flags(["one long id", `{"api_key":"${key}","distinct_id":"${"x".repeat(10 * MIB - 200)}"}`]),
  ];
}
