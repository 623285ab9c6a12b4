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
  /** A limit per member counts each pair of payer and member for itself (ME2). */
  readonly per: "user" | "member";
  amount: number;
}

/** The amount that an event or a hold counted for a limit, in the window that begins at `windowMs` (Q3). */
export type Counted = Readonly<{ limitId: string; memberId: string | null; windowMs: number; minor: bigint }>;

/** A user's or, for a limit per member, a member's use of a limit. */
type CountsOf = Readonly<{ userId: string; memberId: string | null; limitId: string }>;

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
  /** The amounts that replace a limit's amount for one user or member. Null: no limit (Q2). */
  const overrides = new Map<string, number | null>();
  const keyOf = ({ userId, memberId, limitId }: CountsOf) => JSON.stringify([userId, memberId, limitId]);
  const isOfUser = (key: string, userId: string) => JSON.parse(key)[0] === userId;
  /** The windows that a message reported, with the data of the message (Q5). */
  const reported = new Map<string, CountsOf & { resetsAt: string }>();
  /** The limits that the current request counted in. */
  const countedInRequest: CountsOf[] = [];
  const standing = (limit: Limit, userId: string, memberId: string | null) => {
    const { limitId, unit } = limit;
    const { windowMs, endMs } = windowOf(limit, clock.now());
    const inWindow = countedOf(userId).filter(
      (counted) => counted.limitId === limitId && counted.memberId === memberId && counted.windowMs === windowMs,
    );
    const used = inWindow.reduce((sum, { minor }) => sum + minor, 0n);
    const override = overrides.get(keyOf({ userId, memberId, limitId }));
    const amount = override === undefined ? limit.amount : override;
    return { windowMs, endMs, used, amount: amount === null ? null : toMinor(unit, amount) };
  };
  const minorOf = (limit: Limit, use: Use) =>
    matches(limit, use) && (limit.per === "user" || use.memberId !== undefined)
      ? toMinor(limit.unit, quantitiesOf(use)[limit.unit] ?? 0)
      : 0n;
  /** Whose use a limit counts: the member's, or null for the user's. */
  const countsMember = ({ per }: Limit, { memberId }: Use) => (per === "member" ? (memberId ?? null) : null);
  const checkpointOf = (limit: Limit, userId: string, memberId: string | null) => {
    const { limitId, name, unit, every, timeZone } = limit;
    const { used, amount, endMs } = standing(limit, userId, memberId);
    const left = amount === null ? null : fromMinor(unit, amount > used ? amount - used : 0n);
    return {
      ...{ limitId, name, matches: limit.matches, unit, every, timeZone },
      ...{ amount: amount === null ? null : fromMinor(unit, amount), used: fromMinor(unit, used) },
      ...{ remaining: left, resetsAt: timeText(endMs) },
    };
  };
  return {
    limits,
    reported,
    setOwn: (of: CountsOf, amount: number | null | undefined): void => {
      if (amount === undefined) overrides.delete(keyOf(of));
      else overrides.set(keyOf(of), amount);
    },
    /** The amounts that an event or a hold adds to the counters. */
    count: (use: Use): readonly Counted[] =>
      limits.flatMap((limit) => {
        const minor = minorOf(limit, use);
        if (minor === 0n) return [];
        const [{ limitId }, memberId] = [limit, countsMember(limit, use)];
        countedInRequest.push({ userId: use.userId, memberId, limitId });
        return [{ limitId, memberId, windowMs: windowOf(limit, clock.now()).windowMs, minor }];
      }),
    /** The rejections as `details`, in the order in which the limits were created (Q4, U11). */
    rejecting: (use: Use) =>
      limits.flatMap((limit) => {
        const { limitId, name, unit } = limit;
        const memberId = countsMember(limit, use);
        const { used, amount, endMs } = standing(limit, use.userId, memberId);
        const minor = minorOf(limit, use);
        if (minor === 0n || amount === null || used + minor <= amount) return [];
        const [amounts, resetsAt] = [[amount, used, minor].map((each) => fromMinor(unit, each)), timeText(endMs)];
        return [{ limitId, name, unit, amount: amounts[0], used: amounts[1], asked: amounts[2], resetsAt, memberId }];
      }),
    /** A user's usage of each limit, with a member's of each limit per member if one is asked for (Q6, ME2). */
    checkpoints: (userId: string, memberId?: string) =>
      limits.flatMap((limit) => {
        if (limit.per === "member" && memberId === undefined) return [];
        const whose = limit.per === "member" ? (memberId ?? null) : null;
        return [{ ...checkpointOf(limit, userId, whose), ...(memberId === undefined ? {} : { memberId: whose }) }];
      }),
    /** The usage of one limit after a change of its own amount (Q2). */
    checkpointOf: (limit: Limit, userId: string, memberId: string | null) => ({
      ...checkpointOf(limit, userId, memberId),
      ...(memberId === null ? {} : { memberId }),
    }),
    /** Ends a request. Reports each window that the request counted in and that is now used up, once a window (Q5). */
    endRequest: (): void => {
      for (const of of countedInRequest.splice(0)) {
        const { userId, memberId, limitId } = of;
        const limit = limits.find((each) => each.limitId === limitId);
        if (limit === undefined) continue;
        const { used, amount, windowMs, endMs } = standing(limit, userId, memberId);
        const key = `${keyOf(of)} ${windowMs}`;
        if (amount !== null && used >= amount && !reported.has(key))
          reported.set(key, { ...of, resetsAt: timeText(endMs) });
      }
    },
    /** Removes an erased user's overrides and reports. */
    forget: (userId: string): void => {
      for (const key of [...overrides.keys()]) if (isOfUser(key, userId)) overrides.delete(key);
      for (const [key, report] of reported) if (report.userId === userId) reported.delete(key);
    },
  };
}
