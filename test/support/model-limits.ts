import {
  fromMinor,
  matches,
  quantitiesOf,
  type Rule,
  timeText,
  toMinor,
  type Unit,
  type Use,
} from "./model-amounts.ts";
import { createZone } from "./zone-model.ts";

export interface Limit {
  readonly limitId: string;
  readonly name: string;
  readonly matches: Rule[];
  readonly unit: Unit;
  readonly every: "minute" | "hour" | "day" | "week" | "month";
  /** Null for windows shorter than a day. */
  readonly timeZone: string | null;
  amount: number;
}

/** The amount that an event or a hold counted for a limit, in the window that begins at `windowMs` (Q3). */
export type Counted = Readonly<{ limitId: string; windowMs: number; minor: bigint }>;

/** The window of a time, by the calendar of its zone (Q1, TZ1). */
function windowOf({ every, timeZone }: Limit, atMs: number): { windowMs: number; endMs: number } {
  if (every === "minute" || every === "hour") {
    const lengthMs = every === "minute" ? 60_000 : 3_600_000;
    const windowMs = atMs - (atMs % lengthMs);
    return { windowMs, endMs: windowMs + lengthMs };
  }
  const { fromMs, toMs } = createZone(timeZone ?? "UTC").windowOf(every, atMs);
  return { windowMs: fromMs, endMs: toMs };
}

/** A model of usage limits. It has no counters, but adds up the counted amounts for each read. */
export function createLimits(clock: { now: () => number }, countedOf: (userId: string) => readonly Counted[]) {
  const limits: Limit[] = [];
  /** The amounts that replace a limit's amount for one user. Null: no limit (Q2). */
  const overrides = new Map<string, number | null>();
  const keyOf = (userId: string, limitId: string) => `${limitId} ${userId}`;
  /** The windows that a message reported, with the data of the message (Q5). */
  const reported = new Map<string, { userId: string; limitId: string; resetsAt: string }>();
  /** The limits that the current request counted in. */
  const countedInRequest: { userId: string; limitId: string }[] = [];
  const standing = (limit: Limit, userId: string) => {
    const { limitId, unit } = limit;
    const { windowMs, endMs } = windowOf(limit, clock.now());
    const inWindow = countedOf(userId).filter(
      (counted) => counted.limitId === limitId && counted.windowMs === windowMs,
    );
    const used = inWindow.reduce((sum, { minor }) => sum + minor, 0n);
    const override = overrides.get(keyOf(userId, limitId));
    const amount = override === undefined ? limit.amount : override;
    return { windowMs, endMs, used, amount: amount === null ? null : toMinor(unit, amount) };
  };
  const minorOf = (limit: Limit, use: Use) =>
    matches(limit, use) ? toMinor(limit.unit, quantitiesOf(use)[limit.unit] ?? 0) : 0n;
  return {
    limits,
    reported,
    setOwn: (userId: string, limitId: string, amount: number | null | undefined): void => {
      if (amount === undefined) overrides.delete(keyOf(userId, limitId));
      else overrides.set(keyOf(userId, limitId), amount);
    },
    /** The amounts that an event or a hold adds to the counters. */
    count: (use: Use): readonly Counted[] =>
      limits.flatMap((limit) => {
        const minor = minorOf(limit, use);
        if (minor === 0n) return [];
        countedInRequest.push({ userId: use.userId, limitId: limit.limitId });
        return [{ limitId: limit.limitId, windowMs: windowOf(limit, clock.now()).windowMs, minor }];
      }),
    /** The rejections as `details`, in the order in which the limits were created (Q4, U11). */
    rejecting: (use: Use) =>
      limits.flatMap((limit) => {
        const { limitId, name, unit } = limit;
        const { used, amount, endMs } = standing(limit, use.userId);
        const minor = minorOf(limit, use);
        if (minor === 0n || amount === null || used + minor <= amount) return [];
        const [amounts, resetsAt] = [[amount, used, minor].map((each) => fromMinor(unit, each)), timeText(endMs)];
        return [
          { limitId, name, unit, amount: amounts[0], used: amounts[1], asked: amounts[2], resetsAt, memberId: null },
        ];
      }),
    /** A user's usage of each limit (Q6). */
    checkpoints: (userId: string) =>
      limits.map((limit) => {
        const { limitId, name, unit, every, timeZone } = limit;
        const { used, amount, endMs } = standing(limit, userId);
        const left = amount === null ? null : fromMinor(unit, amount > used ? amount - used : 0n);
        return {
          ...{ limitId, name, matches: limit.matches, unit, every, timeZone },
          ...{ amount: amount === null ? null : fromMinor(unit, amount), used: fromMinor(unit, used) },
          ...{ remaining: left, resetsAt: timeText(endMs) },
        };
      }),
    /** Ends a request. Reports each window that the request counted in and that is now used up, once a window (Q5). */
    endRequest: (): void => {
      for (const { userId, limitId } of countedInRequest.splice(0)) {
        const limit = limits.find((each) => each.limitId === limitId);
        if (limit === undefined) continue;
        const { used, amount, windowMs, endMs } = standing(limit, userId);
        const key = `${keyOf(userId, limitId)} ${windowMs}`;
        if (amount !== null && used >= amount && !reported.has(key))
          reported.set(key, { userId, limitId, resetsAt: timeText(endMs) });
      }
    },
    /** Removes an erased user's overrides and reports. */
    forget: (userId: string): void => {
      for (const { limitId } of limits) overrides.delete(keyOf(userId, limitId));
      for (const [key, report] of reported) if (report.userId === userId) reported.delete(key);
    },
  };
}
