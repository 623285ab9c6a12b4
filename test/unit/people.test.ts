import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readEvent } from "../../src/capture/event.ts";
import { eventTimeMs, parseClientTime } from "../../src/capture/event-time.ts";
import { randomId } from "../../src/lib/ids.ts";
import {
  isJsonObject,
  isNestedDeeperThan,
  type JsonObject,
  jsonChunks,
  numberText,
  parseJson,
} from "../../src/lib/json.ts";
import { parseUuid, uuidOf } from "../../src/lib/uuid.ts";
import { isDeviceForm } from "../../src/people/device-id.ts";
import { changedProperties } from "../../src/people/id-properties.ts";
import { planPeople } from "../../src/people/plan-people.ts";
import { isSharedId } from "../../src/people/shared-ids.ts";

describe("parseJson", () => {
  it("gives back, written again, every value that JSON.parse does", () => {
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
  ])("keeps %s digit by digit", (text) => {
    expect(JSON.stringify(parseJson(text))).toBe(text);
  });

  it("keeps a key named __proto__ the key that it is", () => {
    for (const text of ['{"__proto__":{"admin":true}}', '{"__proto__":{"admin":true},"n":9007199254740993}']) {
      const value = parseJson(text);
      expect(isJsonObject(value)).toBe(true);
      expect(Object.keys(value as object)[0]).toBe("__proto__");
      expect((value as { admin?: unknown }).admin).toBeUndefined();
    }
  });

  it("tells a number that it kept from an object", () => {
    const value = parseJson("12345678901234567890");
    expect(isJsonObject(value)).toBe(false);
    expect(numberText(value)).toBe("12345678901234567890");
    expect(numberText({ rawJSON: "1" })).toBeNull();
  });
});

it("isNestedDeeperThan counts objects and lists, and stops where it knows", () => {
  const nested = (levels: number): unknown => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);
  expect(isNestedDeeperThan(nested(900), 900)).toBe(false);
  expect(isNestedDeeperThan(nested(901), 900)).toBe(true);
  expect(isNestedDeeperThan({ a: [{ b: 1 }] }, 3)).toBe(false);
  expect(isNestedDeeperThan({ a: [{ b: 1 }] }, 2)).toBe(true);
  expect(isNestedDeeperThan("text", 0)).toBe(false);
});

it("jsonChunks loses nothing, keeps the order, and keeps each chunk within its bytes", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "binary" })), fc.integer({ min: 1, max: 200 }), (list, bytesMax) => {
      const chunks = jsonChunks(list, bytesMax);
      const lists = chunks.map((chunk) => JSON.parse(chunk) as string[]);
      expect(lists.flat()).toEqual(JSON.parse(JSON.stringify(list)));
      for (const [index, chunk] of chunks.entries()) {
        if ((lists[index]?.length ?? 0) > 1)
          expect(new TextEncoder().encode(chunk).length).toBeLessThanOrEqual(bytesMax + 1);
      }
    }),
  );
});

it("uuidOf makes a version 4 UUID of each random id, another for another", () => {
  const uuids = Array.from({ length: 500 }, () => uuidOf(randomId("")));
  expect(new Set(uuids).size).toBe(500);
  for (const uuid of uuids) {
    expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(parseUuid(uuid.toUpperCase())).toBe(uuid);
  }
  for (const none of ["", "1234", `${uuids[0]}0`, `{${uuids[0]}}`, uuids[0]?.replaceAll("-", "") ?? ""]) {
    expect(parseUuid(none)).toBeNull();
  }
});

describe("isSharedId", () => {
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
  ])("knows that %j is nobody's", (id) => {
    expect(isSharedId(id)).toBe(true);
  });

  it.each(["ana", "0.", "anonymous2", '"anonymous', "'null\"", "users", "00", '"'])("takes %j for somebody's", (id) => {
    expect(isSharedId(id)).toBe(false);
  });
});

describe("an event's time", () => {
  const nowMs = Date.UTC(2026, 0, 15, 12);

  it.each([
    ["2026-01-15T11:00:00Z", -3_600_000],
    ["2026-01-15T11:00:00.123456+00:00", -3_599_877],
    ["2026-01-15T12:00:00+01:00", -3_600_000],
    ["2026-01-15T12:00:00+01", -3_600_000],
    ["2026-01-15 11:00:00", -3_600_000],
    ["2026-01-15T11:00:00.5", -3_599_500],
    ["2026-01-15", -43_200_000],
    ["Thu, 15 Jan 2026 11:00:00 GMT", -3_600_000],
    [`${nowMs}`, 0],
    [`${nowMs / 1_000}`, 0],
  ])("is read from %s", (text, relativeMs) => {
    expect(parseClientTime(text)).toBe(nowMs + relativeMs);
  });

  it("is none where the text is none", () => {
    for (const text of ["", "yesterday", "event 7", "2026-02-30T00:00:00Z", "2026-13-01"])
      expect(parseClientTime(text)).toBeNull();
  });

  it("is a whole number of milliseconds that an export can write, whatever a client says", () => {
    const wild = fc.option(fc.double({ noNaN: true, noDefaultInfinity: true }));
    fc.assert(
      fc.property(wild, wild, wild, (timestampMs, offsetMs, sentAtMs) => {
        const atMs = eventTimeMs({ timestampMs, offsetMs, sentAtMs }, nowMs);
        expect(Number.isSafeInteger(atMs)).toBe(true);
        expect(new Date(atMs).toISOString()).toMatch(/^\d{4}-/);
      }),
    );
  });
});

it("an id's properties change only where an event changes them, never through a prototype", () => {
  const none = { set: {}, setOnce: {}, unset: [] };
  expect(changedProperties({ a: 1 }, none)).toBeNull();
  expect(changedProperties({ a: 1 }, { ...none, set: { a: 1 }, setOnce: { a: 2 }, unset: ["b"] })).toBeNull();
  expect(changedProperties({ a: 1 }, { set: { b: 2 }, setOnce: { b: 3, c: 4 }, unset: ["a"] })).toEqual({ b: 2, c: 4 });
  const proto = JSON.parse('{"__proto__":{"admin":true}}');
  const changed = changedProperties({}, { ...none, set: proto });
  expect(JSON.stringify(changed)).toBe('{"__proto__":{"admin":true}}');
  expect(changedProperties({}, { ...none, setOnce: { toString: 1 } })).toEqual({ toString: 1 });
  expect(changedProperties({}, { ...none, set: { text: "x".repeat(1_000_001) } })).toBe("too large");
});

it("isDeviceForm knows what SDKs make for a device, and nothing that a person may be called", () => {
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

it("properties are written out as often as they are read, not as often as events change them", () => {
  let written = 0;
  const counted = { toJSON: () => `${written++}` };
  const known = { claims: [], properties: [{ distinctId: "ana", properties: { counted }, version: 4 }] };
  const event = (n: number, properties: object) => {
    const raw = { event: "seen", distinct_id: "ana", uuid: crypto.randomUUID(), properties };
    const read = readEvent(raw, { nowMs: n, sentAtMs: null, newUuid: () => "" });
    if (!("captured" in read)) throw new Error("it was meant to be read");
    return read.captured;
  };
  const events = Array.from({ length: 1_000 }, (_, n) =>
    event(n, { $set: { n, [`k${n}`]: n }, $unset: [`k${n - 1}`] }),
  );
  const change = planPeople(events, known, false);
  expect(written).toBeLessThanOrEqual(2);
  const [changed, ...others] = change.properties;
  expect(others).toEqual([]);
  expect({ ...changed?.properties }).toEqual({ counted, n: 999, k999: 999 });
  expect(changed).toMatchObject({ distinctId: "ana", version: 4 });
  expect(known.properties[0]?.properties).toEqual({ counted });
});

it("an id's properties after many events are what each event would have made of them alone", () => {
  const key = fc.constantFrom("a", "b", "c", "1", "__proto__", "constructor");
  const members = fc.array(fc.tuple(key, fc.jsonValue()), { maxLength: 4 }).map((list) => Object.fromEntries(list));
  const changes = fc.record({ set: members, setOnce: members, unset: fc.array(key, { maxLength: 2 }) });
  const asText = (properties: object) =>
    JSON.stringify(Object.entries(properties).sort(([a], [b]) => (a < b ? -1 : 1)));
  fc.assert(
    fc.property(members, fc.array(changes, { maxLength: 8 }), (first, list) => {
      const before = asText(first);
      let played: JsonObject = first;
      let expected: JsonObject = first;
      for (const { set, setOnce, unset } of list) {
        const changed = changedProperties(played, { set, setOnce, unset });
        if (changed !== null && changed !== "too large") played = changed;
        const whole = Object.entries({ ...setOnce, ...expected, ...set });
        expected = Object.fromEntries(whole.filter(([name]) => !unset.some((removed) => removed === name)));
        expect(asText(played)).toBe(asText(expected));
      }
      expect(asText(first)).toBe(before);
    }),
  );
});
