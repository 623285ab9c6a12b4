import fc from "fast-check";
import { expect, it } from "vitest";
import { parseUuid, randomId, uuidsFrom } from "../../src/lib/ids.ts";
import { isJsonObject, isNestedDeeperThan, jsonChunks, numberText, parseJson } from "../../src/lib/json.ts";
import { DAY_MS, HOUR_MS } from "../../src/lib/time.ts";
import { eventTimeMs, numericTime, parseClientTime } from "../../src/people/capture/event-properties.ts";
import { isDeviceForm, isSharedId } from "../../src/people/claims.ts";
import { IdProperties } from "../../src/people/id-properties.ts";
import { planPeople } from "../../src/people/plan-people.ts";

it("parseJson writes back every value that JSON.parse reads", () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 5 }), (text) => {
      expect(JSON.parse(JSON.stringify(parseJson(text)))).toEqual(JSON.parse(text));
    }),
  );
});

it.each([
  "9007199254740993",
  "-9007199254740993",
  "1e400",
  "0.1000000000000000055511151231257827",
  "12345678901234567890123",
  "[1E-400]",
  '{"__proto__":{"n":18446744073709551616}}',
  "-0.0",
])("parseJson keeps %s digit by digit", (text) => {
  expect(JSON.stringify(parseJson(text))).toBe(text);
});

it("parseJson keeps a key named __proto__ as an ordinary key", () => {
  for (const text of ['{"__proto__":{"admin":true}}', '{"__proto__":{"admin":true},"n":9007199254740993}']) {
    const value = parseJson(text);
    expect(isJsonObject(value)).toBe(true);
    expect(Object.keys(value as object)[0]).toBe("__proto__");
    expect((value as { admin?: unknown }).admin).toBeUndefined();
  }
});

it("parseJson distinguishes a kept number from an object", () => {
  const value = parseJson("12345678901234567890");
  expect(isJsonObject(value)).toBe(false);
  expect(numberText(value)).toBe("12345678901234567890");
  expect(numberText({ rawJSON: "1" })).toBeNull();
});

it("isNestedDeeperThan counts objects and lists, and does not look below the limit", () => {
  const nested = (levels: number): unknown => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);
  expect(isNestedDeeperThan(nested(900), 900)).toBe(false);
  expect(isNestedDeeperThan(nested(901), 900)).toBe(true);
  // A walk through all levels would overflow the stack.
  expect(isNestedDeeperThan(nested(100_000), 900)).toBe(true);
  expect(isNestedDeeperThan({ a: [{ b: 1 }] }, 3)).toBe(false);
  expect(isNestedDeeperThan({ a: [{ b: 1 }] }, 2)).toBe(true);
  expect(isNestedDeeperThan("text", 0)).toBe(false);
});

it("jsonChunks keeps all elements in order, and each chunk within its bytes", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "binary" })), fc.integer({ min: 1, max: 200 }), (list, bytesMax) => {
      const chunks = jsonChunks(list, bytesMax);
      const lists = chunks.map((chunk) => JSON.parse(chunk) as string[]);
      expect(lists.flat()).toEqual(JSON.parse(JSON.stringify(list)));
      for (const [index, chunk] of chunks.entries()) {
        if ((lists[index]?.length ?? 0) > 1)
          expect(new TextEncoder().encode(chunk).length).toBeLessThanOrEqual(bytesMax);
      }
    }),
  );
});

it("uuidsFrom makes different version 4 UUIDs of each random id, also where the count begins again at zero", () => {
  const sequences = [...Array.from({ length: 50 }, () => uuidsFrom(randomId(""))), uuidsFrom("z".repeat(22))];
  const uuids = sequences.flatMap((next) => Array.from({ length: 20 }, next));
  expect(new Set(uuids).size).toBe(1_020);
  for (const uuid of uuids) {
    expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(parseUuid(uuid.toUpperCase())).toBe(uuid);
  }
  for (const none of ["", "1234", `${uuids[0]}0`, `{${uuids[0]}}`, uuids[0]?.replaceAll("-", "") ?? ""]) {
    expect(parseUuid(none)).toBeNull();
  }
});

it.each([
  "anonymous",
  "ANONYMOUS",
  " guest ",
  "[object Object]",
  "NaN",
  "0",
  '"undefined"',
  "'Null'",
  ' "none" ',
  "00000000-0000-0000-0000-000000000000",
  "   ",
  '""',
])("isSharedId treats %j as a shared id", (id) => {
  expect(isSharedId(id)).toBe(true);
});

it.each(["ana", "0.", "anonymous2", '"anonymous', "'null\"", "users", "00", '"'])(
  "isSharedId treats %j as the id of one user",
  (id) => {
    expect(isSharedId(id)).toBe(false);
  },
);

const nowMs = Date.UTC(2026, 0, 15, 12);

it.each([
  ["2026-01-15T11:00:00Z", -HOUR_MS],
  ["2026-01-15T11:00:00.123456+00:00", -3_599_877],
  ["2026-01-15T12:00:00+01:00", -HOUR_MS],
  ["2026-01-15T12:00:00+01", -HOUR_MS],
  ["2026-01-15 11:00:00", -HOUR_MS],
  ["2026-01-15T11:00:00.5", -3_599_500],
  ["2026-01-15", -43_200_000],
  ["Thu, 15 Jan 2026 11:00:00 GMT", -HOUR_MS],
  [`${nowMs}`, 0],
  [`${nowMs / 1_000}`, 0],
])("an event's time is read from %s", (text, relativeMs) => {
  expect(parseClientTime(text)).toBe(nowMs + relativeMs);
});

it.each([
  [99_999_999_999, 99_999_999_999_000],
  [100_000_000_000, null],
  [nowMs / 1_000, nowMs],
  [nowMs / 1_000 + 0.25, nowMs + 250],
  [nowMs, nowMs],
  [Date.UTC(2000, 0, 1) / 1_000, Date.UTC(2000, 0, 1)],
  [Date.UTC(2000, 0, 1) / 1_000 - 1, null],
  [0, null],
  [-1, null],
  [8.64e15 + 1, null],
])("an event's time is read from the number %d, in seconds below 10^11 and else in milliseconds", (number, atMs) => {
  expect(numericTime(number)).toBe(atMs);
});

it("an event's time is null when the text is not a time", () => {
  for (const text of ["", "yesterday", "event 7", "2026-02-30T00:00:00Z", "2026-13-01"])
    expect(parseClientTime(text)).toBeNull();
});

it("an event's time is kept as sent, however far ahead, corrected by the difference of the clocks", () => {
  const aheadMs = nowMs + 400 * DAY_MS;
  const sent = { timestampMs: aheadMs, offsetMs: null, sentAtMs: null };
  expect(eventTimeMs(sent, nowMs)).toBe(aheadMs);
  expect(eventTimeMs({ ...sent, sentAtMs: nowMs + DAY_MS }, nowMs)).toBe(aheadMs - DAY_MS);
});

it("an event's time is a whole number of milliseconds that an export can write, whatever a client sends", () => {
  const wild = fc.option(fc.double({ noNaN: true, noDefaultInfinity: true }));
  fc.assert(
    fc.property(wild, wild, wild, (timestampMs, offsetMs, sentAtMs) => {
      const atMs = eventTimeMs({ timestampMs, offsetMs, sentAtMs }, nowMs);
      expect(Number.isSafeInteger(atMs)).toBe(true);
      expect(new Date(atMs).toISOString()).toMatch(/^\d{4}-/);
    }),
  );
});

const none = { set: null, setOnce: null, unset: null, changes: () => null };

it("an id's properties change only by events, never through a prototype", () => {
  const after = (stored: object, changes: object) => {
    const properties = new IdProperties(JSON.stringify(stored));
    expect(properties.apply({ ...none, ...changes })).toBe(true);
    return properties.isChanged ? properties.text : null;
  };
  expect(after({ a: 1 }, none)).toBeNull();
  expect(after({ a: 1 }, { set: { a: 1 }, setOnce: { a: 2 }, unset: ["b"] })).toBeNull();
  expect(after({ a: 1 }, { set: { b: 2 }, setOnce: { b: 3, c: 4 }, unset: ["a"] })).toBe('{"b":2,"c":4}');
  expect(after({}, { set: JSON.parse('{"__proto__":{"admin":true}}') })).toBe('{"__proto__":{"admin":true}}');
  expect(after({}, { setOnce: { toString: 1 } })).toBe('{"toString":1}');
});

it("an id has at most 1,000 names and 64 KiB of properties: further ones are not set", () => {
  const many = new IdProperties("{}");
  const named = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`n${n}`, n]));
  expect(many.apply({ ...none, set: named(1_000) })).toBe(true);
  expect(many.apply({ ...none, set: { n7: "changed", beyond: 1 } })).toBe(false);
  expect(JSON.parse(many.text)).toEqual({ ...named(1_000), n7: "changed" });
  expect(many.apply({ ...none, set: { beyond: 1 }, unset: ["n7"] })).toBe(true);
  expect(Object.keys(JSON.parse(many.text))).toHaveLength(1_000);

  const heavy = new IdProperties("{}");
  const text = "\u20ac".repeat(21_800);
  expect(heavy.apply({ ...none, set: { text } })).toBe(true);
  expect(heavy.apply({ ...none, set: { more: "x".repeat(200), few: 1 } })).toBe(false);
  expect(JSON.parse(heavy.text)).toEqual({ text, few: 1 });
  expect(new TextEncoder().encode(heavy.text).length).toBeLessThanOrEqual(64 * 1024);
  expect(heavy.apply({ ...none, set: { more: "x".repeat(200) }, unset: ["text"] })).toBe(true);
  // Stored properties count the same after they are read again.
  const again = new IdProperties(heavy.text);
  expect(again.apply({ ...none, set: { text } })).toBe(false);
});

it("isDeviceForm accepts the device ids of SDKs, and no ids that a user may have", () => {
  const devices = [
    "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b",
    "0194685F-8A3C-7D11-9F2B-6C1D2E3F4A5B",
    "17d2a5a5d8e6e4-0ff8e2b8d9c6b6-1f396452-13c680-17d2a5a5d8fc34",
    `${"a".repeat(28)}-b-c-d-e`,
  ];
  const others = [
    "ana",
    "",
    "0194685f8a3c7d119f2b6c1d2e3f4a5b",
    "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5",
    "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5g",
    " 0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b",
    "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b\n",
    "0194685f-8a3c-7d11-9f2b-6c1d-2e3f4a5b",
    `${"a".repeat(29)}--c-d-e`,
    `${"a".repeat(27)}-b-c-d-e`,
  ];
  expect(devices.filter(isDeviceForm)).toEqual(devices);
  expect(others.filter(isDeviceForm)).toEqual([]);
});

it("an id's properties are written once, however many events change them", () => {
  const stored = JSON.stringify({ kept: "x".repeat(60_000) });
  const known = { claims: [], properties: [{ distinctId: "ana", isVerified: false, properties: stored, version: 4 }] };
  const events = Array.from({ length: 10_000 }, (_, n) => ({
    uuid: crypto.randomUUID(),
    distinctId: "ana",
    isPersonless: false,
    isIdentify: false,
    isSignedIn: false,
    link: null,
    ...none,
    set: { n, [`k${n}`]: n },
    unset: [`k${n - 1}`],
  }));
  const change = planPeople(events, known, false);
  expect(change.properties).toEqual([
    { distinctId: "ana", isVerified: false, version: 4, properties: `${stored.slice(0, -1)},"n":9999,"k9999":9999}` },
  ]);
});

it("an id's properties after many events equal those after each event separately", () => {
  const key = fc.constantFrom("a", "b", "c", "1", "__proto__", "constructor", 'é"');
  const members = fc
    .uniqueArray(fc.tuple(key, fc.jsonValue()), { maxLength: 4, selector: ([name]) => name })
    .map((list) => new Map(list));
  const changes = fc.record({ set: members, setOnce: members, unset: fc.array(key, { maxLength: 2 }) });
  const textOf = (map: ReadonlyMap<string, unknown>) =>
    `{${Array.from(map, ([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join()}}`;
  fc.assert(
    fc.property(members, fc.array(changes, { maxLength: 8 }), (first, list) => {
      const played = new IdProperties(textOf(first));
      const expected = new Map(first);
      for (const { set, setOnce, unset } of list) {
        played.apply({
          set: JSON.parse(textOf(set)),
          setOnce: JSON.parse(textOf(setOnce)),
          unset,
        });
        for (const [name, value] of setOnce) if (!expected.has(name)) expected.set(name, value);
        for (const [name, value] of set) expected.set(name, value);
        for (const name of unset) expected.delete(name);
        expect(new Map(Object.entries(JSON.parse(played.text)))).toEqual(
          new Map(Object.entries(JSON.parse(textOf(expected)))),
        );
        if (played.isChanged) expect(played.storedBytes).toBe(new TextEncoder().encode(played.text).length);
      }
    }),
  );
});
