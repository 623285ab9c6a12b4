import { expect, it } from "vitest";
import { type Every, lastPeriod, periodAt, periodStart } from "../../src/books/ledger/calendar.ts";
import { DAY_MS } from "../../src/lib/time.ts";
import { UTC } from "../../src/lib/time-zone.ts";
import { createRandom } from "../support/random.ts";

const isLeap = (year: number) => year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
const daysIn = (year: number, month: number) =>
  month === 2 ? (isLeap(year) ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31;

/** Counts the days from 1970 to a date, without `Date`. */
function daysOf(year: number, month: number, day: number): number {
  let days = day - 1;
  for (let y = 1970; y < year; y++) days += isLeap(y) ? 366 : 365;
  for (let m = 1; m < month; m++) days += daysIn(year, m);
  return days;
}

interface Moment {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly ms: number;
}
const msOf = ({ year, month, day, ms }: Moment) => daysOf(year, month, day) * DAY_MS + ms;

/** The beginning of period n, by counting months from the anchor. */
function modelStart(anchor: Moment, every: Every, n: number): number {
  if (every === "day") return msOf(anchor) + (n - 1) * DAY_MS;
  if (every === "week") return msOf(anchor) + (n - 1) * 7 * DAY_MS;
  let { year, month } = anchor;
  for (let step = 0; step < (n - 1) * (every === "year" ? 12 : 1); step++) {
    month++;
    if (month > 12) [year, month] = [year + 1, 1];
  }
  return msOf({ ...anchor, year, month, day: Math.min(anchor.day, daysIn(year, month)) });
}

const inUtc = (anchorMs: number, every: Every) => ({ ...UTC, every, anchorMs, anchorLocalMs: anchorMs });

const EVERY = ["day", "week", "month", "year"] as const;

/** Month ends and other days of a century. */
function anchors(): Moment[] {
  const random = createRandom(31);
  const moments: Moment[] = [];
  for (let year = 2000; year < 2100; year++) {
    for (const month of [1, 2, random.integer(3, 11), 12]) {
      for (const day of [random.integer(1, 28), 29, 30, 31]) {
        const ms = random.pick([0, DAY_MS - 1, random.integer(0, DAY_MS - 1)]);
        if (day <= daysIn(year, month)) moments.push({ year, month, day, ms });
      }
    }
  }
  return moments;
}

it("the calendar of periods begins each period where counting months from the anchor ends, for anchors in a whole century", () => {
  for (const anchor of anchors()) {
    for (const every of EVERY) {
      for (const n of [1, 2, 3, 4, 5, 12, 13, 14, 25, 49, 50]) {
        expect([anchor, every, n, periodStart(inUtc(msOf(anchor), every), n)]).toEqual([
          ...[anchor, every, n, modelStart(anchor, every, n)],
        ]);
      }
    }
  }
});

it("the calendar of periods finds the period of a time, and the last period before an end", () => {
  const random = createRandom(7);
  for (const anchor of anchors()) {
    for (const every of EVERY) {
      const n = random.integer(1, 60);
      const [from, to] = [modelStart(anchor, every, n), modelStart(anchor, every, n + 1)];
      for (const atMs of [from, to - 1, random.integer(from, to - 1)]) {
        expect(periodAt(inUtc(msOf(anchor), every), atMs)).toBe(n);
      }
      expect(periodAt(inUtc(msOf(anchor), every), msOf(anchor) - 1)).toBe(0);
      expect(lastPeriod(inUtc(msOf(anchor), every), from + 1)).toBe(n);
      if (n > 1) expect(lastPeriod(inUtc(msOf(anchor), every), from)).toBe(n - 1);
    }
  }
  expect(lastPeriod(inUtc(0, "month"), null)).toBe(Number.POSITIVE_INFINITY);
});

it("the calendar of periods does not shift later periods after a month without the anchor's day", () => {
  const starts = (anchor: string, every: Every, count: number) =>
    Array.from({ length: count }, (_, index) =>
      new Date(periodStart(inUtc(Date.parse(anchor), every), index + 1)).toISOString().slice(0, 10),
    );
  expect(starts("2027-12-31T10:00Z", "month", 5)).toEqual([
    ...["2027-12-31", "2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"],
  ]);
  expect(starts("2028-02-29T10:00Z", "year", 5)).toEqual([
    ...["2028-02-29", "2029-02-28", "2030-02-28", "2031-02-28", "2032-02-29"],
  ]);
});
