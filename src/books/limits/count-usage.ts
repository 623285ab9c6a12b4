import { readFeatures } from "../../db/features.ts";
import type { Steps } from "../../db/schema.ts";
import { PurserError } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import { fromSteps, type Unit } from "../amounts/amount.ts";
import { type MatchRule, rulesCover } from "../amounts/match.ts";
import type { Usage } from "../ledger/burn-down.ts";
import { type WindowLength, windowOf } from "../ledger/calendar.ts";
import type { Counted, Counter, Counters, NewCount } from "../ledger/counters.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { returnedHolds } from "../ledger/settle.ts";

/** A usage limit in the environment's features. */
export interface UsageLimit {
  readonly id: string;
  readonly name: string;
  /** Empty for every event. */
  readonly matches: readonly MatchRule[];
  readonly unit: Unit;
  readonly amountSteps: Steps;
  readonly every: WindowLength;
}

/** Returns the limits from the text of an environment's features, oldest first. For equal texts it returns the same objects. */
export function limitsOf(features: string | null): readonly UsageLimit[] {
  // Only `syncLimits` writes this part.
  return (readFeatures(features).limits ?? []) as readonly UsageLimit[];
}

/** A user's usage against the limits, before a new count. */
export interface LimitsAtRead {
  readonly nowMs: number;
  readonly limits: readonly UsageLimit[];
  /** Null if they were not read. Then only the database enforces the limits. */
  readonly counters: Counters | null;
  /** Due holds that are returned first, which undoes their counts. */
  readonly due: readonly { readonly counted: readonly Counted[] }[];
}

/** A user's usage against one limit in the current window. */
export interface LimitStanding {
  readonly usedSteps: Steps;
  /** Null when the user is unlimited. */
  readonly amountSteps: Steps | null;
  readonly fromMs: number;
  readonly resetsAtMs: number;
}

/**
 * Returns a user's usage against a limit. If the counter has a later window than the isolate's clock, because that clock is behind,
 * the counter's window is used.
 */
export function standingOf(
  { every, amountSteps }: Pick<UsageLimit, "every" | "amountSteps">,
  counter: Omit<Counter, "limitId"> | undefined,
  nowMs: number,
): LimitStanding {
  const { fromMs, toMs: resetsAtMs } = windowOf(every, Math.max(nowMs, counter?.windowMs ?? 0));
  const usedSteps = counter?.windowMs === fromMs ? counter.usedSteps : (0 as Steps);
  return {
    usedSteps,
    amountSteps: counter?.hasOwnAmount === 1 ? counter.ownAmountSteps : amountSteps,
    fromMs,
    resetsAtMs,
  };
}

/** A usage's count for a limit, and the user's usage before it. */
interface LimitCount {
  readonly count: NewCount;
  readonly standing: LimitStanding;
}

function countForLimits(
  state: LimitsAtRead,
  { event, model, quantities }: Usage,
  isEnforced: boolean,
): readonly LimitCount[] {
  return state.limits.flatMap((limit): LimitCount[] => {
    const { id: limitId, name, unit, matches, amountSteps } = limit;
    const steps = quantities[unit] ?? 0;
    if (steps === 0 || !rulesCover(matches, event, model)) return [];
    const { usedSteps: counted, ...standing } = standingOf(limit, state.counters?.get(limitId), state.nowMs);
    const returned = state.due
      .flatMap((hold) => hold.counted)
      .filter((count) => count.limitId === limitId && count.windowMs === standing.fromMs)
      .reduce((sum, count) => sum + count.steps, 0);
    const usedSteps = Math.max(0, counted - returned) as Steps;
    const { fromMs: windowMs, resetsAtMs } = standing;
    const count = { limitId, name, unit, windowMs, resetsAtMs, steps: steps as Steps, amountSteps, isEnforced };
    return [{ count, standing: { ...standing, usedSteps } }];
  });
}

const wouldExceed = ({ count, standing: { usedSteps, amountSteps } }: LimitCount): boolean =>
  amountSteps !== null && usedSteps + count.steps > amountSteps;

/** Returns the details of a refusal by a limit (Q4). */
function presentRefusingLimit({ count, standing }: LimitCount) {
  const { limitId, name, unit, steps } = count;
  const { usedSteps, amountSteps, resetsAtMs } = standing;
  return {
    ...{ limitId, name, unit },
    amount: fromSteps(unit, amountSteps ?? (0 as Steps)),
    used: fromSteps(unit, usedSteps),
    asked: fromSteps(unit, steps),
    resetsAt: iso(resetsAtMs),
  };
}

/** Returns the limits that would refuse a usage, oldest first (U11). */
export function refusingLimits(state: LimitsAtRead, usage: Usage) {
  return countForLimits(state, usage, true).filter(wouldExceed).map(presentRefusingLimit);
}

/**
 * Returns the counts of a usage for the environment's limits. If `isEnforced`, throws `usage_limit_reached` when the usage would
 * exceed an amount, for the exceeded limit that resets last (Q4).
 */
export function countUsage(account: AccountAtRead, usage: Usage, isEnforced: boolean): readonly NewCount[] {
  const limits = limitsOf(account.features);
  if (limits.length === 0) return [];
  const state = { ...account, limits, due: returnedHolds(account.settled) };
  const counts = countForLimits(state, usage, isEnforced);
  if (isEnforced && state.counters !== null) {
    const last = counts
      .filter(wouldExceed)
      .reduce<LimitCount | null>(
        (a, b) => (a !== null && a.standing.resetsAtMs >= b.standing.resetsAtMs ? a : b),
        null,
      );
    if (last !== null) throw usageLimitReached(last, state.nowMs);
  }
  return counts.map(({ count }) => count);
}

function usageLimitReached(exceeded: LimitCount, nowMs: number): PurserError {
  const seconds = Math.max(1, Math.ceil((exceeded.standing.resetsAtMs - nowMs) / 1_000));
  return new PurserError("usage_limit_reached", "The usage would exceed the user's limit in the current window.", {
    details: presentRefusingLimit(exceeded),
    headers: { "Retry-After": String(seconds) },
  });
}

/** Returns the counters after some counts, for callers that count several usages one after another. */
export function afterCounts(counters: Counters | null, counts: readonly NewCount[]): Counters | null {
  if (counters === null || counts.length === 0) return counters;
  const after = new Map(counters);
  for (const { limitId, windowMs, steps } of counts) {
    const before = after.get(limitId) ?? { limitId, windowMs, usedSteps: 0, hasOwnAmount: 0, ownAmountSteps: null };
    const usedSteps = ((before.windowMs === windowMs ? before.usedSteps : 0) + steps) as Steps;
    after.set(limitId, { ...before, windowMs, usedSteps } as Counter);
  }
  return after;
}
