import { describe, expect, it } from "vitest";
import {
  isEmptyPeriod,
  lastPeriod,
  periodAt,
  periodStart,
  type Schedule,
  windowEnd,
} from "../../../../src/books/ledger/calendar.ts";
import { HOUR_MS, iso, MINUTE_MS } from "../../../../src/lib/time.ts";
import { fromLocalMs, isTimeZone, toLocalMs } from "../../../../src/lib/time-zone.ts";
import { createRandom } from "../../../support/random.ts";
import { isSoak, RANDOM_SEED, soakPart, timeoutOf } from "../../../support/soak.ts";
import { createZone } from "../../../support/zone-model.ts";

const zoneOf = (timeZone: string) => ({ timeZone, utcOffsetMs: 0 });

const scheduleOf = (timeZone: string, anchorMs: number, every: Schedule["every"]): Schedule => ({
  ...{ ...zoneOf(timeZone), every, anchorMs, anchorLocalMs: toLocalMs(zoneOf(timeZone), anchorMs) },
});

/** Half and quarter hours, changes of clocks at midnight, twice a year and more, skipped days, and zones without changes. */
const NOTABLE = [
  ...["UTC", "Europe/Berlin", "America/New_York", "America/Los_Angeles", "Asia/Kolkata", "Asia/Kathmandu"],
  ...["Pacific/Apia", "Pacific/Kwajalein", "Pacific/Kiritimati", "Australia/Lord_Howe", "Pacific/Chatham"],
  ...["America/Sao_Paulo", "America/Havana", "America/St_Johns", "Asia/Beirut", "Asia/Gaza", "Africa/Casablanca"],
  ...["Africa/Cairo", "Antarctica/Troll", "Asia/Tehran", "Europe/Dublin", "Africa/Monrovia", "America/Caracas"],
] as const;

const ALL = Intl.supportedValuesOf("timeZone");
const random = createRandom(RANDOM_SEED);
/** All zones in the soak; else the notable ones and some of the others. */
const TESTED = isSoak ? ALL : [...new Set([...NOTABLE, ...Array.from({ length: 4 }, () => random.pick(ALL))])];

const EVERY = ["day", "week", "month", "year"] as const;
const [FIRST_MS, LAST_MS] = [Date.UTC(1980, 0, 1), Date.UTC(2030, 0, 1)];

describe(`time zones, PROOF_SEED=${RANDOM_SEED}`, () => {
  it("windows and periods are those of an independent calendar, for anchors and changes of clocks of fifty years, in every zone", {
    timeout: timeoutOf(TESTED.length, 10_000),
  }, () => {
    const report = soakPart("time zones", TESTED.length, "zones", RANDOM_SEED);
    for (const timeZone of TESTED) {
      const zone = createZone(timeZone);
      const changes = zone.changes.filter(({ atMs }) => atMs > FIRST_MS && atMs < LAST_MS);
      const wrong: unknown[] = [];
      const compare = (what: readonly unknown[], actual: unknown, expected: unknown) => {
        if (actual !== expected) wrong.push([timeZone, ...what, actual, expected]);
      };
      const comparePeriods = (anchorMs: number, every: Schedule["every"], n: number) => {
        const schedule = scheduleOf(timeZone, anchorMs, every);
        const [from, to] = [n, n + 1].map((each) => zone.periodStart(anchorMs, every, each)) as [number, number];
        compare([every, iso(anchorMs), n, "from"], periodStart(schedule, n), from);
        compare([every, iso(anchorMs), n, "empty"], isEmptyPeriod(schedule, n), from === to);
        if (from === to) return;
        compare([every, iso(anchorMs), n, "at from"], periodAt(schedule, from), n);
        compare([every, iso(anchorMs), n, "at to - 1"], periodAt(schedule, to - 1), n);
        compare([every, iso(anchorMs), n, "last"], lastPeriod(schedule, from + 1), n);
      };
      const compareWindows = (atMs: number) => {
        for (const every of ["day", "week", "month"] as const) {
          const { fromMs, toMs } = zone.windowOf(every, atMs);
          compare([every, iso(atMs), "end"], windowEnd(every, zoneOf(timeZone), atMs), toMs);
          compare([every, iso(atMs), "begin"], windowEnd(every, zoneOf(timeZone), fromMs - 1), fromMs);
        }
      };
      for (const { atMs, beforeMs, afterMs } of changes) {
        for (const nearMs of [atMs - 1, atMs, atMs + HOUR_MS, atMs - HOUR_MS / 2]) compareWindows(nearMs);
        // Dates and times in the gap or in the doubled time, and at its ends.
        const [low, high] = [atMs + Math.min(beforeMs, afterMs), atMs + Math.max(beforeMs, afterMs)];
        for (const localMs of [low, low + MINUTE_MS, (low + high) / 2, high - 1, high]) {
          compare(["local", iso(localMs)], fromLocalMs(zoneOf(timeZone), localMs), zone.fromLocal(localMs));
          const every = random.pick(EVERY);
          const n = random.integer(2, 20);
          const anchorMs = zone.anchorBefore(localMs, every, n);
          if (anchorMs !== null) comparePeriods(anchorMs, every, n);
        }
      }
      for (let count = 0; count < (isSoak ? 100 : 30); count++) {
        const atMs = random.integer(FIRST_MS, LAST_MS);
        compareWindows(atMs);
        // The first and the last days of months, and leap days, at midnight and other times.
        const [year, month] = [random.integer(1980, 2029), random.integer(0, 11)];
        const localMs = Date.UTC(year, month, random.pick([1, 15, 28, 29, 30, 31])) + random.pick([0, 1, 9 * HOUR_MS]);
        const every = random.pick(EVERY);
        comparePeriods(zone.fromLocal(localMs), every, random.integer(1, every === "year" ? 12 : 40));
      }
      expect(wrong.slice(0, 5), `${wrong.length} in ${timeZone}`).toEqual([]);
      report();
    }
  });

  it("windows end in order, after each of their times, where clocks go back over midnight", () => {
    for (const timeZone of ["America/St_Johns", "America/Sao_Paulo", "Asia/Beirut", "America/Havana"]) {
      for (const { atMs } of createZone(timeZone).changes.slice(0, 20)) {
        let beforeMs = 0;
        for (let nearMs = atMs - 3 * HOUR_MS; nearMs < atMs + 26 * HOUR_MS; nearMs += HOUR_MS / 2) {
          const endMs = windowEnd("day", zoneOf(timeZone), nearMs);
          expect([timeZone, endMs > nearMs, endMs >= beforeMs]).toEqual([timeZone, true, true]);
          expect(windowEnd("day", zoneOf(timeZone), endMs - 1)).toBe(endMs);
          beforeMs = endMs;
        }
      }
    }
  });
});

const starts = (timeZone: string, anchor: string, every: Schedule["every"], numbers: readonly number[]): string[] =>
  numbers.map((n) => iso(periodStart(scheduleOf(timeZone, Date.parse(anchor), every), n)));

it("a period begins after the gap if clocks skip its time, and at the first of two", () => {
  expect(starts("Europe/Berlin", "2026-03-28T02:30:00+01:00", "day", [1, 2, 3])).toEqual([
    ...["2026-03-28T01:30:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"],
  ]);
  expect(starts("Europe/Berlin", "2026-10-24T02:30:00+02:00", "day", [1, 2, 3])).toEqual([
    ...["2026-10-24T00:30:00.000Z", "2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"],
  ]);
});

it("period 1 begins at the anchor, also at the second of two equal local times", () => {
  expect(starts("Europe/Berlin", "2026-10-25T02:30:00+01:00", "day", [1, 2])).toEqual([
    ...["2026-10-25T01:30:00.000Z", "2026-10-26T01:30:00.000Z"],
  ]);
});

it("months from midnight in Berlin begin on the first, and from the 31st on the last day", () => {
  expect(starts("Europe/Berlin", "2026-01-01T00:00:00+01:00", "month", [1, 2, 3, 4])).toEqual([
    ...["2025-12-31T23:00:00.000Z", "2026-01-31T23:00:00.000Z", "2026-02-28T23:00:00.000Z"],
    "2026-03-31T22:00:00.000Z",
  ]);
  expect(starts("America/Los_Angeles", "2026-01-31T00:00:00-08:00", "month", [2, 3])).toEqual([
    ...["2026-02-28T08:00:00.000Z", "2026-03-31T07:00:00.000Z"],
  ]);
});

it.each([
  ["Pacific/Apia", "2011-12-28T00:00:00-10:00", "2011-12-30T10:00:00.000Z"],
  ["Pacific/Kwajalein", "1993-08-19T00:00:00-12:00", "1993-08-21T12:00:00.000Z"],
])("the period of the day that %s skipped has no length", (timeZone, anchor, skippedAt) => {
  const schedule = scheduleOf(timeZone, Date.parse(anchor), "day");
  expect([1, 2, 3, 4].map((n) => isEmptyPeriod(schedule, n))).toEqual([false, false, true, false]);
  expect(iso(periodStart(schedule, 3))).toBe(skippedAt);
  expect(periodAt(schedule, Date.parse(skippedAt))).toBe(4);
  const at = (hours: number) => windowEnd("day", zoneOf(timeZone), Date.parse(skippedAt) + hours * HOUR_MS);
  expect([-25, -24, -1, 0].map((hours) => iso(at(hours)))).toEqual(
    [-24, 0, 0, 24].map((hours) => iso(Date.parse(skippedAt) + hours * HOUR_MS)),
  );
});

it("a day has 23 or 25 hours when its clocks change", () => {
  const hours = (at: string) => {
    const endMs = windowEnd("day", zoneOf("America/New_York"), Date.parse(at));
    return (windowEnd("day", zoneOf("America/New_York"), endMs) - endMs) / HOUR_MS;
  };
  expect(["2026-03-07", "2026-07-01", "2026-10-31"].map((day) => hours(`${day}T12:00:00Z`))).toEqual([23, 24, 25]);
});

it("a zone that the runtime does not know is read at its last known offset", () => {
  const lost = { timeZone: "Europe/Atlantis", utcOffsetMs: 2 * HOUR_MS };
  expect(iso(windowEnd("day", lost, Date.parse("2026-07-01T12:00:00Z")))).toBe("2026-07-01T22:00:00.000Z");
  const anchorMs = Date.parse("2026-01-01T00:00:00+01:00");
  const schedule: Schedule = { ...lost, every: "month", anchorMs, anchorLocalMs: anchorMs + HOUR_MS };
  expect(iso(periodStart(schedule, 7))).toBe("2026-06-30T22:00:00.000Z");
  expect(periodAt(schedule, Date.parse("2026-07-01T12:00:00Z"))).toBe(7);
});

it("names of time zones are IANA names in any case, not offsets, abbreviations or other text", () => {
  const names = ["UTC", "utc", "Europe/Berlin", "EUROPE/berlin", "Etc/GMT+5", "US/Pacific", "GMT", "EST5EDT"];
  expect(names.filter((name) => !isTimeZone(name))).toEqual([]);
  expect(ALL.filter((name) => !isTimeZone(name))).toEqual([]);
  const others = [
    "",
    "+01:00",
    "-0500",
    "GMT+5",
    "UTC+1",
    "IST",
    "PST",
    "JST",
    "Z",
    "Berlin",
    " UTC",
    "Europe/Berlin ",
  ];
  const texts = ["2026-01-01T00:00Z[Europe/Berlin]", "Etc/Unknown", "Europe/Berlın", "A".repeat(65), "\u0000"];
  expect([...others, ...texts].filter(isTimeZone)).toEqual([]);
});
