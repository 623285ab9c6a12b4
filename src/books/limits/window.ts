/** The windows of usage limits (Q1), by the calendar in UTC. */
export const EVERY = ["minute", "hour", "day", "week", "month"] as const;
export type WindowLength = (typeof EVERY)[number];

/** A window, from its first millisecond to the first of the next window. */
export interface Window {
  readonly fromMs: number;
  readonly toMs: number;
}

const MINUTE_MS = 60_000;
const DAYS_MS = 24 * 60 * MINUTE_MS;
const WEEK_MS = 7 * DAYS_MS;
/** 1970 began on a Thursday: the first Monday was three days before it. */
const MONDAY_MS = -3 * DAYS_MS;

const LENGTHS_MS = { minute: MINUTE_MS, hour: 60 * MINUTE_MS, day: DAYS_MS, week: WEEK_MS } as const;

/** The window that contains a time. */
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
