import fc from "fast-check";
import { expect, it } from "vitest";
import { iso, parseTimestamp } from "../../src/lib/time.ts";

const at = Date.UTC(2026, 0, 15, 12, 30);
const first = Date.UTC(0, 0, 1) - 59_958_230_400_000; // 0000-01-01T00:00Z; Date.UTC reads year 0 as 1900.
const last = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const pad = (value: number, length = 2) => String(value).padStart(length, "0");

it("iso writes each millisecond as toISOString does, whatever it wrote before", () => {
  const moments = fc.array(fc.integer({ min: first - 86_400_000, max: last + 86_400_000 }), { maxLength: 20 });
  const ofOneDay = fc.array(fc.integer({ min: at, max: at + 86_400_000 }), { maxLength: 20 });
  fc.assert(
    fc.property(moments, ofOneDay, (some, more) => {
      for (const atMs of [...some, ...more]) expect(iso(atMs)).toBe(new Date(atMs).toISOString());
    }),
  );
});

it("iso throws for a value that is not a time", () => {
  for (const atMs of [Number.NaN, Number.POSITIVE_INFINITY, 8.65e15]) expect(() => iso(atMs)).toThrow(RangeError);
});

it("parseTimestamp parses every time that responses contain", () => {
  expect(iso(first)).toBe("0000-01-01T00:00:00.000Z");
  fc.assert(fc.property(fc.integer({ min: first, max: last }), (atMs) => parseTimestamp(iso(atMs)) === atMs));
});

it("parseTimestamp parses a time in every offset", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: first + 86_400_000, max: last - 86_400_000 }),
      fc.integer({ min: -1_439, max: 1_439 }),
      (atMs, minutes) => {
        const local = iso(atMs + minutes * 60_000).slice(0, -1);
        const size = Math.abs(minutes);
        const offset = `${minutes < 0 ? "-" : "+"}${pad(Math.floor(size / 60))}:${pad(size % 60)}`;
        expect(parseTimestamp(local + offset)).toBe(atMs);
      },
    ),
  );
});

it.each([
  ["2026-01-15T12:30Z", at],
  ["2026-01-15T12:30:00Z", at],
  ["2026-01-15t12:30:00z", at],
  ["2026-01-15 12:30:00Z", at],
  ["2026-01-15T14:30:00+02:00", at],
  ["2026-01-15T12:30:00-00:00", at],
  ["2026-01-15T12:30:00.5Z", at + 500],
  ["2026-01-15T12:30:00.123999999Z", at + 123],
  ["2024-02-29T00:00Z", Date.UTC(2024, 1, 29)],
  ["2000-02-29T00:00Z", Date.UTC(2000, 1, 29)],
  ["0000-02-29T00:00Z", first + 59 * 86_400_000],
])("parseTimestamp reads %s", (text, atMs) => {
  expect(parseTimestamp(text)).toBe(atMs);
});

it.each([
  "",
  "2026-01-15",
  "2026-01-15T12:30",
  "2026-01-15T12:30:00",
  "2026-01-15T12Z",
  "2026-01-15T12:30:00,5Z",
  "2026-01-15T12:30:00.Z",
  "2026-01-15T12:30.5Z",
  "2026-01-15T24:00:00Z",
  "2026-01-15T12:60:00Z",
  "2026-01-15T12:30:60Z",
  "2026-01-15T12:30:00+0200",
  "2026-01-15T12:30:00+02",
  "2026-01-15T12:30:00+24:00",
  "2026-01-15T12:30:00+02:60",
  "2026-00-15T12:30Z",
  "2026-13-15T12:30Z",
  "2026-01-00T12:30Z",
  "2026-01-32T12:30Z",
  "2026-04-31T12:30Z",
  "2026-02-29T12:30Z",
  "1900-02-29T12:30Z",
  "26-01-15T12:30Z",
  "+002026-01-15T12:30Z",
  "20260115T123000Z",
  " 2026-01-15T12:30Z",
  "2026-01-15T12:30Z\n",
  "2026-01-15T12:30Zulu",
  "Thu, 15 Jan 2026 12:30:00 GMT",
  "1768480200000",
  "٢٠٢٦-01-15T12:30Z",
  // The year in UTC is 10000 or -1, which RFC 3339 cannot express.
  "9999-12-31T23:59:59-00:01",
  "0000-01-01T00:00:00+00:01",
])("parseTimestamp refuses %j", (text) => {
  expect(parseTimestamp(text)).toBeNull();
});
