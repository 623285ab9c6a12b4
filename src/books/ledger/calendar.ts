import { DAY_MS } from "../../lib/time.ts";

/** How often a recurring grant comes. */
export type Every = "day" | "week" | "month" | "year";

const DAYS = { day: 1, week: 7 } as const;
const MONTHS = { month: 1, year: 12 } as const;

/**
 * The beginning of period n, from 1: the anchor plus n − 1 times `every`, in UTC. If a month lacks the anchor's day, its last day is
 * used. Each period is computed from the anchor, so that a short month does not shift later ones (R1).
 */
export function periodStart(anchorMs: number, every: Every, n: number): number {
  if (every === "day" || every === "week") return anchorMs + (n - 1) * DAYS[every] * DAY_MS;
  const anchor = new Date(anchorMs);
  const month = anchor.getUTCMonth() + (n - 1) * MONTHS[every];
  const lastDay = new Date(Date.UTC(anchor.getUTCFullYear(), month + 1, 0)).getUTCDate();
  const day = Math.min(anchor.getUTCDate(), lastDay);
  return Date.UTC(anchor.getUTCFullYear(), month, day) + (anchorMs - Math.floor(anchorMs / DAY_MS) * DAY_MS);
}

/** The number of the period that runs at a moment; 0 before the first. */
export function periodAt(anchorMs: number, every: Every, atMs: number): number {
  if (atMs < anchorMs) return 0;
  if (every === "day" || every === "week") return Math.floor((atMs - anchorMs) / (DAYS[every] * DAY_MS)) + 1;
  const [anchor, at] = [new Date(anchorMs), new Date(atMs)];
  const months = (at.getUTCFullYear() - anchor.getUTCFullYear()) * 12 + at.getUTCMonth() - anchor.getUTCMonth();
  const n = Math.floor(months / MONTHS[every]) + 1;
  return periodStart(anchorMs, every, n) <= atMs ? n : n - 1;
}

/** The number of the last period: the last that begins before `endsAtMs`. */
export function lastPeriod(anchorMs: number, every: Every, endsAtMs: number | null): number {
  return endsAtMs === null ? Number.POSITIVE_INFINITY : periodAt(anchorMs, every, endsAtMs - 1);
}
