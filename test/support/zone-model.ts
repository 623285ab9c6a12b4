/**
 * The calendar of time zones, calculated from the list of a zone's changes of clocks. The list comes from `Intl` alone, without the
 * library that `src` uses.
 */

const DAY_MS = 86_400_000;

export interface ClockChange {
  readonly atMs: number;
  readonly beforeMs: number;
  readonly afterMs: number;
}

/** Returns a function that reads a zone's offset at a time. */
function offsets(timeZone: string): (atMs: number) => number {
  const format = new Intl.DateTimeFormat("en-US", {
    ...{ timeZone, hourCycle: "h23", era: "short", year: "numeric", month: "numeric", day: "numeric" },
    ...{ hour: "numeric", minute: "numeric", second: "numeric" },
  });
  return (atMs) => {
    const digits = format.format(atMs).match(/\d+/g)?.map(Number) ?? [];
    const [month = 0, day = 0, year = 0, hour = 0, minute = 0, second = 0] = digits;
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(atMs / 1_000) * 1_000;
  };
}

/** Clocks are not changed twice within this time. */
const STEP_MS = 6 * DAY_MS;

/** Returns the changes of a zone's clocks in a span of time, in order. */
function clockChanges(timeZone: string, fromMs: number, toMs: number): ClockChange[] {
  const offsetAt = offsets(timeZone);
  const changes: ClockChange[] = [];
  let beforeMs = offsetAt(fromMs);
  for (let endMs = fromMs + STEP_MS; endMs < toMs; endMs += STEP_MS) {
    const afterMs = offsetAt(endMs);
    if (afterMs === beforeMs) continue;
    let [low, high] = [endMs - STEP_MS, endMs];
    while (high - low > 1_000) {
      const middle = Math.floor((low + high) / 2_000) * 1_000;
      if (offsetAt(middle) === beforeMs) low = middle;
      else high = middle;
    }
    changes.push({ atMs: high, beforeMs, afterMs });
    beforeMs = afterMs;
  }
  return changes;
}

export type Every = "day" | "week" | "month" | "year";

const isLeap = (year: number) => year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
const daysIn = (year: number, month: number) =>
  month === 2 ? (isLeap(year) ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31;

/** Returns a date and time that is a number of units after another, by counting months. Both are milliseconds as if in UTC. */
function later(localMs: number, every: Every, count: number): number {
  if (every === "day" || every === "week") return localMs + count * (every === "day" ? 1 : 7) * DAY_MS;
  const local = new Date(localMs);
  let [year, month] = [local.getUTCFullYear(), local.getUTCMonth() + 1];
  const months = count * (every === "year" ? 12 : 1);
  for (let step = 0; step < Math.abs(months); step++) {
    month += Math.sign(months);
    if (month > 12) [year, month] = [year + 1, 1];
    if (month < 1) [year, month] = [year - 1, 12];
  }
  const timeMs = localMs - Math.floor(localMs / DAY_MS) * DAY_MS;
  return Date.UTC(year, month - 1, Math.min(local.getUTCDate(), daysIn(year, month))) + timeMs;
}

type ZoneModel = ReturnType<typeof calculateZone>;
const zones = new Map<string, ZoneModel>();

/** Returns a model of a zone's calendar from 1970 to 2100. */
export function createZone(timeZone: string): ZoneModel {
  const zone = zones.get(timeZone) ?? calculateZone(timeZone);
  zones.set(timeZone, zone);
  return zone;
}

function calculateZone(timeZone: string) {
  const fromMs = Date.UTC(1970, 0, 1);
  const changes = clockChanges(timeZone, fromMs, Date.UTC(2100, 0, 1));
  const firstMs = changes[0]?.beforeMs ?? offsets(timeZone)(fromMs);
  /** The spans between the changes, each with its offset. */
  const spans = [
    { fromMs: Number.NEGATIVE_INFINITY, offsetMs: firstMs },
    ...changes.map(({ atMs, afterMs }) => ({ fromMs: atMs, offsetMs: afterMs })),
  ].map((span, index, all) => ({ ...span, toMs: all[index + 1]?.fromMs ?? Number.POSITIVE_INFINITY }));
  const offsetAt = (atMs: number): number => spans.find(({ toMs }) => atMs < toMs)?.offsetMs ?? 0;
  const toLocal = (atMs: number): number => atMs + offsetAt(atMs);
  /** The first time with a date and time; the end of the gap if clocks skip it. */
  const fromLocal = (localMs: number): number => {
    for (const { fromMs, toMs, offsetMs } of spans) {
      const atMs = Math.max(localMs - offsetMs, fromMs);
      if (atMs < toMs) return atMs;
    }
    throw new Error("the last span has no end");
  };
  return {
    changes,
    toLocal,
    fromLocal,
    /** The beginning of period n. */
    periodStart: (anchorMs: number, every: Every, n: number): number =>
      n === 1 ? anchorMs : fromLocal(later(toLocal(anchorMs), every, n - 1)),
    /** The anchor whose period n has a date and time. Null if there is none, or before 1970. */
    anchorBefore: (localMs: number, every: Every, n: number): number | null => {
      const anchor = later(localMs, every, 1 - n);
      return anchor > DAY_MS && later(anchor, every, n - 1) === localMs ? fromLocal(anchor) : null;
    },
    /** The window that contains a time: between two midnights, of which the first is taken if one comes twice. */
    windowOf: (every: "day" | "week" | "month", atMs: number): { fromMs: number; toMs: number } => {
      const localDay = Math.floor(toLocal(atMs) / DAY_MS);
      const isFirst = (day: number): boolean => {
        if (every === "month") return new Date(day * DAY_MS).getUTCDate() === 1;
        return every === "day" || new Date(day * DAY_MS).getUTCDay() === 1;
      };
      const begins: number[] = [];
      for (let day = localDay - 35; day <= localDay + 35; day++) if (isFirst(day)) begins.push(fromLocal(day * DAY_MS));
      const toMs = begins.find((beginMs) => beginMs > atMs) ?? Number.NaN;
      return { fromMs: begins.findLast((beginMs) => beginMs <= atMs) ?? Number.NaN, toMs };
    },
  };
}
