import { DAY_MS, MINUTE_MS } from "../../lib/time.ts";
import { fromLocalMs, toLocalMs, type Zone } from "../../lib/time-zone.ts";

/** The length of a recurring grant's periods. */
export type Every = "day" | "week" | "month" | "year";

const DAYS = { day: 1, week: 7 } as const;
const MONTHS = { month: 1, year: 12 } as const;

/** The periods of a recurring grant (R1, TZ2). */
export interface Schedule extends Zone {
  readonly every: Every;
  /** The beginning of period 1. */
  readonly anchorMs: number;
  /** The anchor's date and time in the zone, as `toLocalMs` returns it. */
  readonly anchorLocalMs: number;
}

/** Returns the date and time a number of periods after another: the month's last day if the month lacks the day (TZ2). */
export function addPeriods(localMs: number, every: Every, periods: number): number {
  if (every === "day" || every === "week") return localMs + periods * DAYS[every] * DAY_MS;
  const local = new Date(localMs);
  const month = local.getUTCMonth() + periods * MONTHS[every];
  const lastDay = new Date(Date.UTC(local.getUTCFullYear(), month + 1, 0)).getUTCDate();
  const day = Math.min(local.getUTCDate(), lastDay);
  return Date.UTC(local.getUTCFullYear(), month, day) + (localMs - Math.floor(localMs / DAY_MS) * DAY_MS);
}

/**
 * Returns the beginning of period n, from 1. Each period is computed from the anchor, so that a short month does not shift later
 * periods (TZ2).
 */
export function periodStart(schedule: Schedule, n: number): number {
  const { anchorMs, anchorLocalMs, every } = schedule;
  return n === 1 ? anchorMs : fromLocalMs(schedule, addPeriods(anchorLocalMs, every, n - 1));
}

/** Returns the number of the period at a time; 0 before the first period. A period without length contains no time. */
export function periodAt(schedule: Schedule, atMs: number): number {
  const { anchorMs, anchorLocalMs, every } = schedule;
  if (atMs < anchorMs) return 0;
  let n = Math.max(1, periodsBetween(anchorLocalMs, toLocalMs(schedule, atMs), every));
  while (n > 1 && periodStart(schedule, n) > atMs) n--;
  while (periodStart(schedule, n + 1) <= atMs) n++;
  return n;
}

/** Returns about how many periods have begun at a date and time. */
function periodsBetween(anchorLocalMs: number, localMs: number, every: Every): number {
  if (every === "day" || every === "week") return Math.floor((localMs - anchorLocalMs) / (DAYS[every] * DAY_MS)) + 1;
  const [anchor, local] = [new Date(anchorLocalMs), new Date(localMs)];
  const months = (local.getUTCFullYear() - anchor.getUTCFullYear()) * 12 + local.getUTCMonth() - anchor.getUTCMonth();
  return Math.floor(months / MONTHS[every]) + 1;
}

/** Returns whether a period has no length, because its zone skipped a day. It is not granted (TZ2). */
export const isEmptyPeriod = (schedule: Schedule, n: number): boolean =>
  periodStart(schedule, n) === periodStart(schedule, n + 1);

/** Returns the number of the last period, which is the last to begin before `endsAtMs`. */
export function lastPeriod(schedule: Schedule, endsAtMs: number | null): number {
  return endsAtMs === null ? Number.POSITIVE_INFINITY : periodAt(schedule, endsAtMs - 1);
}

/** Returns the first moments of a month and of the next month, in UTC. Null for text that is not a month. */
export function spanOfMonth(month: string): { readonly fromMs: number; readonly toMs: number } | null {
  const [, year, number] = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(month) ?? [];
  if (year === undefined || number === undefined) return null;
  return { fromMs: Date.UTC(Number(year), Number(number) - 1), toMs: Date.UTC(Number(year), Number(number)) };
}

/** The windows of usage limits (Q1). Those of a day or longer follow the calendar of a zone (TZ1). */
export const EVERY = ["minute", "hour", "day", "week", "month"] as const;
export type WindowLength = (typeof EVERY)[number];

const DAYS_MS = 24 * 60 * MINUTE_MS;
const WEEK_MS = 7 * DAYS_MS;
/** 1970 began on a Thursday: the first Monday was three days before it. */
const MONDAY_MS = -3 * DAYS_MS;

const LENGTHS_MS = { minute: MINUTE_MS, hour: 60 * MINUTE_MS, day: DAYS_MS, week: WEEK_MS } as const;

/** Returns the end of the window that contains a date and time. */
function localWindowEnd(every: WindowLength, localMs: number): number {
  if (every === "month") {
    const local = new Date(localMs);
    return Date.UTC(local.getUTCFullYear(), local.getUTCMonth() + 1, 1);
  }
  const lengthMs = LENGTHS_MS[every];
  const beginMs = every === "week" ? MONDAY_MS : 0;
  return beginMs + (Math.floor((localMs - beginMs) / lengthMs) + 1) * lengthMs;
}

/** Returns the end of the window that contains a time, which is the first time of the next window. */
export function windowEnd(every: WindowLength, zone: Zone, atMs: number): number {
  let localMs = localWindowEnd(every, toLocalMs(zone, atMs));
  let endMs = fromLocalMs(zone, localMs);
  // Where clocks go back over midnight, the next day has already begun, and the date is the day before again.
  while (endMs <= atMs) {
    localMs = localWindowEnd(every, localMs);
    endMs = fromLocalMs(zone, localMs);
  }
  return endMs;
}
