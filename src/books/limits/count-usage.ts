import type { Minor } from "../../db/schema.ts";
import { readSettingsSnapshot } from "../../db/settings-snapshot.ts";
import { PurserError } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import { fromMinor, type Unit } from "../amounts/amount.ts";
import { type MatchRule, rulesCover } from "../amounts/match.ts";
import type { Usage } from "../ledger/burn-down.ts";
import { type WindowLength, windowOf } from "../ledger/calendar.ts";
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
  readonly per: "user" | "member";
}

/** Returns the limits from the text of an environment's settings snapshot, oldest first. For equal texts it returns the same objects. */
export function limitsOf(settingsSnapshot: string | null): readonly UsageLimit[] {
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
  readonly fromMs: number;
  readonly resetsAtMs: number;
}

/**
 * Returns a user's usage against a limit. If the counter has a later window than the isolate's clock, because that clock is behind,
 * the counter's window is used.
 */
export function readLimitStatus(
  { every, amountMinor }: Pick<UsageLimit, "every" | "amountMinor">,
  counter: Omit<Counter, "limitId"> | undefined,
  nowMs: number,
): LimitStatus {
  const { fromMs, toMs: resetsAtMs } = windowOf(every, Math.max(nowMs, counter?.windowMs ?? 0));
  const usedMinor = counter?.windowMs === fromMs ? counter.usedMinor : (0 as Minor);
  return {
    usedMinor,
    amountMinor: counter?.hasOverride === 1 ? counter.overrideMinor : amountMinor,
    fromMs,
    resetsAtMs,
  };
}

/** A usage's count for a limit, and the user's usage before it. */
interface LimitCount {
  readonly count: NewCount;
  readonly limitStatus: LimitStatus;
}

/** Returns the amount that due holds count in a window of a user's or a member's counter, which their returns undo. */
export function returnedMinor(
  due: LimitsAtRead["due"],
  { limitId, memberId, windowMs }: Pick<Counter, "limitId" | "memberId" | "windowMs">,
): number {
  return due
    .flatMap((hold) =>
      hold.counted.map((count) => ({ ...count, memberId: count.isMember === 1 ? hold.memberId : null })),
    )
    .filter((count) => count.limitId === limitId && count.windowMs === windowMs && count.memberId === memberId)
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
    const returned = returnedMinor(state.due, { limitId, memberId, windowMs: limitStatus.fromMs });
    const usedMinor = Math.max(0, counted - returned) as Minor;
    const { fromMs: windowMs, resetsAtMs } = limitStatus;
    const count = {
      limitId,
      memberId,
      name,
      unit,
      windowMs,
      resetsAtMs,
      minor: minor as Minor,
      amountMinor,
      isEnforced,
    };
    return [{ count, limitStatus: { ...limitStatus, usedMinor } }];
  });
}

const wouldExceed = ({ count, limitStatus: { usedMinor, amountMinor } }: LimitCount): boolean =>
  amountMinor !== null && usedMinor + count.minor > amountMinor;

/** Returns the details of a rejection by a limit (Q4). */
function presentRejectingLimit({ count, limitStatus }: LimitCount) {
  const { limitId, memberId, name, unit, minor } = count;
  const { usedMinor, amountMinor, resetsAtMs } = limitStatus;
  return {
    ...{ limitId, memberId, name, unit },
    amount: fromMinor(unit, amountMinor ?? (0 as Minor)),
    used: fromMinor(unit, usedMinor),
    asked: fromMinor(unit, minor),
    resetsAt: iso(resetsAtMs),
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
  const limits = limitsOf(account.settingsSnapshot);
  if (limits.length === 0) return [];
  const state = { ...account, limits, due: returnedHolds(account.settled) };
  const counts = countForLimits(state, usage, isEnforced);
  if (isEnforced && state.counters !== null) {
    const last = counts
      .filter(wouldExceed)
      .reduce<LimitCount | null>(
        (a, b) => (a !== null && a.limitStatus.resetsAtMs >= b.limitStatus.resetsAtMs ? a : b),
        null,
      );
    if (last !== null) throw usageLimitReached(last, state.nowMs);
  }
  return counts.map(({ count }) => count);
}

function usageLimitReached(exceeded: LimitCount, nowMs: number): PurserError {
  const seconds = Math.max(1, Math.ceil((exceeded.limitStatus.resetsAtMs - nowMs) / 1_000));
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
  for (const { limitId, memberId, windowMs, minor } of counts) {
    const key = counterKey(limitId, memberId);
    const unused = { limitId, memberId, windowMs, usedMinor: 0, hasOverride: 0, overrideMinor: null };
    const before = after.get(key) ?? unused;
    const usedMinor = ((before.windowMs === windowMs ? before.usedMinor : 0) + minor) as Minor;
    after.set(key, { ...before, windowMs, usedMinor } as Counter);
  }
  return after;
}
