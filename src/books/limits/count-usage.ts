import type { Minor } from "../../db/schema.ts";
import { readSettingsSnapshot } from "../../db/settings-snapshot.ts";
import { PurserError } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import { UTC } from "../../lib/time-zone.ts";
import { fromMinor, type Unit } from "../amounts/amount.ts";
import { type MatchRule, rulesCover } from "../amounts/match.ts";
import type { Usage } from "../ledger/burn-down.ts";
import { type WindowLength, windowEnd } from "../ledger/calendar.ts";
import { type Counted, type Counter, type Counters, counterKey, type NewCount } from "../ledger/counters.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { returnedHolds } from "../ledger/settle.ts";

/** A usage limit in the environment's settings snapshot. */
export interface UsageLimit {
  readonly id: string;
  readonly name: string;
  /** Empty for every event. */
  readonly matches: readonly MatchRule[];
  readonly unit: Unit;
  readonly amountMinor: Minor;
  readonly every: WindowLength;
  /** The zone whose calendar the windows follow, and its last known offset. Null for windows shorter than a day (TZ1). */
  readonly timeZone: string | null;
  readonly utcOffsetMs: number;
  readonly per: "user" | "member";
}

/** Returns the limits from the text of an environment's settings snapshot, oldest first. For equal texts it returns the same objects. */
export function parseLimits(settingsSnapshot: string | null): readonly UsageLimit[] {
  // Only `syncLimits` writes this part.
  return (readSettingsSnapshot(settingsSnapshot).limits ?? []) as readonly UsageLimit[];
}

/** A user's usage against the limits, before a new count. */
export interface LimitsAtRead {
  readonly nowMs: number;
  readonly limits: readonly UsageLimit[];
  /** Null if they were not read. Then only the database enforces the limits. */
  readonly counters: Counters | null;
  /** Due holds that are returned first, which undoes their counts. */
  readonly due: readonly { readonly counted: readonly Counted[]; readonly memberId: string | null }[];
}

/** A usage, and the member who used it, whom limits per member count (ME2). */
export type UsageOfMember = Usage & { readonly memberId: string | null };

/** A user's usage against one limit in the current window. */
export interface LimitStatus {
  readonly usedMinor: Minor;
  /** Null when the user is unlimited. */
  readonly amountMinor: Minor | null;
  /** When the window ends. */
  readonly endMs: number;
}

/**
 * Returns a user's usage against a limit. A counter's window runs until the end that it has, even if the zone's rules have changed
 * since (TZ1) or the isolate's clock is behind.
 */
export function readLimitStatus(
  { every, timeZone, utcOffsetMs, amountMinor }: Pick<UsageLimit, "every" | "timeZone" | "utcOffsetMs" | "amountMinor">,
  counter: Omit<Counter, "limitId"> | undefined,
  nowMs: number,
): LimitStatus {
  const ofUser = counter?.hasOverride === 1 ? counter.overrideMinor : amountMinor;
  if (counter !== undefined && counter.endMs > nowMs) {
    return { usedMinor: counter.usedMinor, amountMinor: ofUser, endMs: counter.endMs };
  }
  const zone = timeZone === null ? UTC : { timeZone, utcOffsetMs };
  return { usedMinor: 0 as Minor, amountMinor: ofUser, endMs: windowEnd(every, zone, nowMs) };
}

/** A usage's count for a limit, and the user's usage before it. */
interface LimitCount {
  readonly count: NewCount;
  readonly limitStatus: LimitStatus;
}

/** Returns the amount that due holds count in a window of a user's or a member's counter, which their returns undo. */
export function returnedMinor(
  due: LimitsAtRead["due"],
  { limitId, memberId, endMs }: Pick<Counter, "limitId" | "memberId" | "endMs">,
): number {
  return due
    .flatMap((hold) =>
      hold.counted.map((count) => ({ ...count, memberId: count.isMember === 1 ? hold.memberId : null })),
    )
    .filter((count) => count.limitId === limitId && count.endMs === endMs && count.memberId === memberId)
    .reduce((sum, { minor }) => sum + minor, 0);
}

function countForLimits(
  state: LimitsAtRead,
  { event, model, quantities, memberId: usedBy }: UsageOfMember,
  isEnforced: boolean,
): readonly LimitCount[] {
  return state.limits.flatMap((limit): LimitCount[] => {
    const { id: limitId, name, unit, matches, amountMinor, per } = limit;
    const minor = quantities[unit] ?? 0;
    if (minor === 0 || !rulesCover(matches, event, model) || (per === "member" && usedBy === null)) return [];
    const memberId = per === "member" ? usedBy : null;
    const counter = state.counters?.get(counterKey(limitId, memberId));
    const { usedMinor: counted, ...limitStatus } = readLimitStatus(limit, counter, state.nowMs);
    const returned = returnedMinor(state.due, { limitId, memberId, endMs: limitStatus.endMs });
    const usedMinor = Math.max(0, counted - returned) as Minor;
    const { endMs } = limitStatus;
    const count = { limitId, memberId, name, unit, endMs, minor: minor as Minor, amountMinor, isEnforced };
    return [{ count, limitStatus: { ...limitStatus, usedMinor } }];
  });
}

const wouldExceed = ({ count, limitStatus: { usedMinor, amountMinor } }: LimitCount): boolean =>
  amountMinor !== null && usedMinor + count.minor > amountMinor;

/** Returns the details of a rejection by a limit (Q4). */
function presentRejectingLimit({ count, limitStatus }: LimitCount) {
  const { limitId, memberId, name, unit, minor } = count;
  const { usedMinor, amountMinor, endMs } = limitStatus;
  return {
    ...{ limitId, memberId, name, unit },
    amount: fromMinor(unit, amountMinor ?? (0 as Minor)),
    used: fromMinor(unit, usedMinor),
    asked: fromMinor(unit, minor),
    resetsAt: iso(endMs),
  };
}

/** Returns the limits that would reject a usage, oldest first (U11). */
export function rejectingLimits(state: LimitsAtRead, usage: UsageOfMember) {
  return countForLimits(state, usage, true).filter(wouldExceed).map(presentRejectingLimit);
}

/**
 * Returns the counts of a usage for the environment's limits. If `isEnforced`, throws `usage_limit_reached` when the usage would
 * exceed an amount, for the exceeded limit that resets last (Q4).
 */
export function countUsage(account: AccountAtRead, usage: UsageOfMember, isEnforced: boolean): readonly NewCount[] {
  const limits = parseLimits(account.settingsSnapshot);
  if (limits.length === 0) return [];
  const state = { ...account, limits, due: returnedHolds(account.settled) };
  const counts = countForLimits(state, usage, isEnforced);
  if (isEnforced && state.counters !== null) {
    const last = counts
      .filter(wouldExceed)
      .reduce<LimitCount | null>((a, b) => (a !== null && a.limitStatus.endMs >= b.limitStatus.endMs ? a : b), null);
    if (last !== null) throw usageLimitReached(last, state.nowMs);
  }
  return counts.map(({ count }) => count);
}

function usageLimitReached(exceeded: LimitCount, nowMs: number): PurserError {
  const seconds = Math.max(1, Math.ceil((exceeded.limitStatus.endMs - nowMs) / 1_000));
  const whose = exceeded.count.memberId === null ? "user" : "member";
  return new PurserError("usage_limit_reached", `The usage would exceed the ${whose}'s limit in the current window.`, {
    details: presentRejectingLimit(exceeded),
    headers: { "Retry-After": String(seconds) },
  });
}

/** Returns the counters after some counts, for callers that count several usages one after another. */
export function afterCounts(counters: Counters | null, counts: readonly NewCount[]): Counters | null {
  if (counters === null || counts.length === 0) return counters;
  const after = new Map(counters);
  for (const { limitId, memberId, endMs, minor } of counts) {
    const key = counterKey(limitId, memberId);
    const unused = { limitId, memberId, endMs, usedMinor: 0, hasOverride: 0, overrideMinor: null };
    const before = after.get(key) ?? unused;
    const usedMinor = ((before.endMs === endMs ? before.usedMinor : 0) + minor) as Minor;
    after.set(key, { ...before, endMs, usedMinor } as Counter);
  }
  return after;
}
