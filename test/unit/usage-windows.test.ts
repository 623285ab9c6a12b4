import fc from "fast-check";
import { expect, it } from "vitest";
import { EVERY, type WindowLength, windowOf } from "../../src/books/ledger/calendar.ts";

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
  const { fromMs, toMs } = windowOf(every, at(moment));
  expect([text(fromMs), text(toMs)]).toEqual([from, to]);
});

it("the window of a usage limit contains its time, is the same for its first and last millisecond, and ends where the next begins", () => {
  fc.assert(
    fc.property(fc.constantFrom(...EVERY), fc.integer({ min: 0, max: 4_102_444_800_000 }), (every, ms) => {
      const { fromMs, toMs } = windowOf(every, ms);
      expect(ms >= fromMs && ms < toMs).toBe(true);
      expect(windowOf(every, fromMs)).toEqual({ fromMs, toMs });
      expect(windowOf(every, toMs - 1)).toEqual({ fromMs, toMs });
      expect(windowOf(every, toMs).fromMs).toBe(toMs);
      if (every === "week") expect(new Date(fromMs).getUTCDay()).toBe(1);
    }),
  );
});
