import { DAY_MS, MINUTE_MS } from "../../lib/time.ts";

/** The length of a recurring grant's periods. */
export type Every = "day" | "week" | "month" | "year";

const DAYS = { day: 1, week: 7 } as const;
const MONTHS = { month: 1, year: 12 } as const;

/**
 * Returns the beginning of period n, from 1: the anchor plus n − 1 times `every`, in UTC. In a month without the anchor's day, it is
 * the last day. Each period is computed from the anchor, so that a short month does not shift later periods (R1).
 */
export function periodStart(anchorMs: number, every: Every, n: number): number {
  if (every === "day" || every === "week") return anchorMs + (n - 1) * DAYS[every] * DAY_MS;
  const anchor = new Date(anchorMs);
  const month = anchor.getUTCMonth() + (n - 1) * MONTHS[every];
  const lastDay = new Date(Date.UTC(anchor.getUTCFullYear(), month + 1, 0)).getUTCDate();
  const day = Math.min(anchor.getUTCDate(), lastDay);
  return Date.UTC(anchor.getUTCFullYear(), month, day) + (anchorMs - Math.floor(anchorMs / DAY_MS) * DAY_MS);
}

/** Returns the number of the period at a moment; 0 before the first period. */
export function periodAt(anchorMs: number, every: Every, atMs: number): number {
  if (atMs < anchorMs) return 0;
  if (every === "day" || every === "week") return Math.floor((atMs - anchorMs) / (DAYS[every] * DAY_MS)) + 1;
  const [anchor, at] = [new Date(anchorMs), new Date(atMs)];
  const months = (at.getUTCFullYear() - anchor.getUTCFullYear()) * 12 + at.getUTCMonth() - anchor.getUTCMonth();
  const n = Math.floor(months / MONTHS[every]) + 1;
  return periodStart(anchorMs, every, n) <= atMs ? n : n - 1;
}

/** Returns the number of the last period, which is the last to begin before `endsAtMs`. */
export function lastPeriod(anchorMs: number, every: Every, endsAtMs: number | null): number {
  return endsAtMs === null ? Number.POSITIVE_INFINITY : periodAt(anchorMs, every, endsAtMs - 1);
}

/** Returns the first moments of a month and of the next month, in UTC. Null for text that is not a month. */
export function spanOfMonth(month: string): { readonly fromMs: number; readonly toMs: number } | null {
  const [, year, number] = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(month) ?? [];
  if (year === undefined || number === undefined) return null;
  return { fromMs: Date.UTC(Number(year), Number(number) - 1), toMs: Date.UTC(Number(year), Number(number)) };
}

/** The windows of usage limits (Q1), by the calendar in UTC. */
export const EVERY = ["minute", "hour", "day", "week", "month"] as const;
export type WindowLength = (typeof EVERY)[number];

/** A window, from its first millisecond to the first of the next window. */
export interface Window {
  readonly fromMs: number;
  readonly toMs: number;
}

const DAYS_MS = 24 * 60 * MINUTE_MS;
const WEEK_MS = 7 * DAYS_MS;
/** 1970 began on a Thursday: the first Monday was three days before it. */
const MONDAY_MS = -3 * DAYS_MS;

const LENGTHS_MS = { minute: MINUTE_MS, hour: 60 * MINUTE_MS, day: DAYS_MS, week: WEEK_MS } as const;

/** Returns the window that contains a time. */
export function windowOf(every: WindowLength, atMs: number): Window {
  if (every === "month") {
    const at = new Date(atMs);
    const month = (after: number) => Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + after, 1);
    return { fromMs: month(0), toMs: month(1) };
  }
  const lengthMs = LENGTHS_MS[every];
  const beginMs = every === "week" ? MONDAY_MS : 0;
  const fromMs = beginMs + Math.floor((atMs - beginMs) / lengthMs) * lengthMs;
  return { fromMs, toMs: fromMs + lengthMs };
}
