import fc from "fast-check";
import { expect, it } from "vitest";
import { EVERY, type WindowLength, windowEnd } from "../../src/books/ledger/calendar.ts";
import { UTC } from "../../src/lib/time-zone.ts";

const at = (text: string): number => Date.parse(`${text}Z`);
const text = (ms: number): string => new Date(ms).toISOString().slice(0, 16);

it.each<[WindowLength, string, string, string]>([
  ["minute", "2026-01-15T12:34:56.789", "2026-01-15T12:34", "2026-01-15T12:35"],
  ["hour", "2026-01-15T12:34:56.789", "2026-01-15T12:00", "2026-01-15T13:00"],
  ["day", "2026-01-15T00:00:00.000", "2026-01-15T00:00", "2026-01-16T00:00"],
  ["day", "2026-01-14T23:59:59.999", "2026-01-14T00:00", "2026-01-15T00:00"],
  ["week", "2026-01-12T00:00:00.000", "2026-01-12T00:00", "2026-01-19T00:00"],
  ["week", "2026-01-11T23:59:59.999", "2026-01-05T00:00", "2026-01-12T00:00"],
  ["week", "1969-12-31T00:00:00.000", "1969-12-29T00:00", "1970-01-05T00:00"],
  ["month", "2024-02-29T23:59:59.999", "2024-02-01T00:00", "2024-03-01T00:00"],
  ["month", "2025-12-31T12:00:00.000", "2025-12-01T00:00", "2026-01-01T00:00"],
])("the window of a usage limit of a %s, at %s, is from %s to %s", (every, moment, from, to) => {
  const endOf = (atMs: number) => text(windowEnd(every, UTC, atMs));
  expect([endOf(at(from) - 1), endOf(at(from)), endOf(at(moment))]).toEqual([from, to, to]);
});

it("the window of a usage limit ends after its times, at the same time for its first and last millisecond", () => {
  fc.assert(
    fc.property(fc.constantFrom(...EVERY), fc.integer({ min: 0, max: 4_102_444_800_000 }), (every, ms) => {
      const endMs = windowEnd(every, UTC, ms);
      expect(endMs > ms).toBe(true);
      const nextMs = windowEnd(every, UTC, endMs);
      expect(nextMs > endMs).toBe(true);
      expect(windowEnd(every, UTC, nextMs - 1)).toBe(nextMs);
      if (every === "week") expect(new Date(endMs).getUTCDay()).toBe(1);
    }),
  );
});
