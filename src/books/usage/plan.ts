import type { Steps } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromSteps, presentQuantities } from "../amounts/amount.ts";
import { readRules, rulesCover } from "../amounts/match.ts";
import { inSpendingOrder, type PayingRow, statusOf } from "../ledger/balance.ts";
import { burnDown, type Usage } from "../ledger/burn-down.ts";
import { readDuePeriods, selectDuePeriods } from "../ledger/due-periods.ts";
import { type DueHold, inOrderOfEnds, readDueHold } from "../ledger/hold.ts";
import { balancesOfPeriods } from "../ledger/plan-periods.ts";
import { planDue } from "../ledger/settle-due.ts";
import {
  selectBalancesOfDue,
  selectDueLegs,
  selectNewestDead,
  selectPayingNow,
  spendableBalances,
} from "../ledger/spendable-balances.ts";
import { refusingLimits } from "../limits/judge.ts";
import { counterOf, limitOf, selectUserLimits, type UserLimitRow } from "../limits/user-limits.ts";
import { warnOfCount } from "./payment.ts";
import type { PlanOutput } from "./responses.ts";
import { assertNotAhead, type PlanInput } from "./schemas.ts";

/**
 * The debits of an event if it came now (U11), computed by the same burn-down, with due holds settled and due periods granted. It
 * also returns why other balances would not pay (of those that cannot pay at all, the newest hundred) and which usage limits would
 * refuse the event. Warns of an implied count (W16). Changes nothing.
 */
export async function planUsage(ctx: TenantCtx, input: PlanInput): Promise<PlanOutput> {
  const nowMs = ctx.now();
  assertNotAhead(input.occurredAt, nowMs);
  const user = { userId: input.userId };
  const readWith = (selectPaying: typeof selectPayingNow) =>
    batch(ctx.db, [
      selectPaying(ctx, user, { nowMs }),
      selectNewestDead(ctx, user, { nowMs }),
      selectDueLegs(ctx, user, { nowMs }),
      selectUserLimits(ctx, input.userId),
      selectDuePeriods(ctx, user, { nowMs }),
    ]);
  let [paying, dead, due, limits, [begun]] = await readWith(selectPayingNow);
  // A charge may be paid by balances that have expired since the reservation's end.
  if (due.some(({ isToCharge }) => isToCharge === 1))
    [paying, dead, due, limits, [begun]] = await readWith(selectBalancesOfDue);
  const granted = balancesOfPeriods(readDuePeriods(ctx, begun?.due ?? null, { nowMs, isWhole: true }));
  due.sort(inOrderOfEnds);
  const holds = new Map(due.map((row) => [row.holdId, readDueHold(row)]));
  const after = planDue([...paying, ...dead, ...due, ...granted], [...holds.values()]);
  const listed = new Set([...dead, ...due].map(({ id }) => id));
  // Other expired balances were read only for a charge.
  const rows = after.rows.filter((row) => row.expiresAtMs > nowMs || listed.has(row.id));
  const { legs, uncovered } = burnDown(spendableBalances(rows, nowMs), input);
  warnOfCount(
    ctx,
    input.quantities,
    legs.map((leg) => leg.balance),
  );
  const debited = new Set(legs.map((leg) => leg.balance.id));
  return {
    debits: legs.map(({ balance, amountSteps }) => ({
      balanceId: balance.id,
      packId: balance.packId,
      unit: balance.unit,
      amount: fromSteps(balance.unit, amountSteps),
      remaining: fromSteps(balance.unit, (balance.remainingSteps - amountSteps) as Steps),
    })),
    uncovered: uncovered === null ? null : presentQuantities(uncovered),
    skipped: inSpendingOrder(rows.filter((row) => !debited.has(row.id))).map((row) => ({
      balanceId: row.id,
      packName: row.packName,
      unit: row.unit,
      remaining: fromSteps(row.unit, row.remainingSteps),
      reason: whySkipped(row, input, nowMs),
    })),
    limits: planLimits(limits, [...holds.values()], input, nowMs),
  };
}

/** The limits that would refuse it. Due holds count as settled, and a charge still counts (Q3). */
function planLimits(
  rows: readonly UserLimitRow[],
  holds: readonly DueHold[],
  input: PlanInput,
  nowMs: number,
): PlanOutput["limits"] {
  if (input.onShortage === "partial") return [];
  const counters = rows.flatMap((row) => counterOf(row) ?? []);
  const state = { nowMs, counters: new Map(counters.map((counter) => [counter.limitId, counter])) };
  const due = holds.filter(({ charge }) => charge === null);
  return refusingLimits({ ...state, due, limits: rows.map(limitOf) }, input);
}

/** The first reason that applies. */
function whySkipped(row: PayingRow, usage: Usage, nowMs: number): PlanOutput["skipped"][number]["reason"] {
  const status = statusOf(row, nowMs);
  if (status !== "active") return status;
  if (!rulesCover(readRules(row.matches), usage.event, usage.model)) return "no_match";
  return (usage.quantities[row.unit] ?? 0) === 0 ? "wrong_unit" : "not_needed";
}
