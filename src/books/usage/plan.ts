import type { Steps } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromSteps, presentQuantities } from "../amounts/amount.ts";
import { readRules, rulesCover } from "../amounts/match.ts";
import { inSpendingOrder, type PayingRow, statusOf } from "../ledger/balance.ts";
import { burnDown, type Usage } from "../ledger/burn-down.ts";
import { readDuePeriods, selectDuePeriods } from "../ledger/due-periods.ts";
import { inOrderOfEnds, readDueHold } from "../ledger/hold.ts";
import { balancesOfPeriods } from "../ledger/plan-periods.ts";
import { planDue } from "../ledger/settle-due.ts";
import {
  selectBalancesOfDue,
  selectDueLegs,
  selectNewestDead,
  selectPayingNow,
  spendableBalances,
} from "../ledger/spendable-balances.ts";
import type { PlanOutput } from "./responses.ts";
import { assertNotAhead, type PlanInput } from "./schemas.ts";

/**
 * What an event would debit if it came now: by the same burn-down, over the same state, due holds counted as settled and due periods as granted;
 * and why each other balance would not pay, of those that are dead the newest hundred. Changes nothing (U11).
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
      selectDuePeriods(ctx, user, { nowMs }),
    ]);
  let [paying, dead, due, [begun]] = await readWith(selectPayingNow);
  // A charge may be paid by balances that expired since.
  if (due.some(({ isToCharge }) => isToCharge === 1))
    [paying, dead, due, [begun]] = await readWith(selectBalancesOfDue);
  const granted = balancesOfPeriods(readDuePeriods(ctx, begun?.due ?? null, { nowMs, isWhole: true }));
  due.sort(inOrderOfEnds);
  const holds = new Map(due.map((row) => [row.holdId, readDueHold(row)]));
  const after = planDue([...paying, ...dead, ...due, ...granted], [...holds.values()]);
  const listed = new Set([...dead, ...due].map(({ id }) => id));
  // Others that expired were read for a charge alone.
  const rows = after.rows.filter((row) => row.expiresAtMs > nowMs || listed.has(row.id));
  const { legs, uncovered } = burnDown(spendableBalances(rows, nowMs), input);
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
      reason: whySkipped(row, input, nowMs),
    })),
  };
}

/** The first reason that applies. */
function whySkipped(row: PayingRow, usage: Usage, nowMs: number): PlanOutput["skipped"][number]["reason"] {
  const status = statusOf(row, nowMs);
  if (status !== "active") return status;
  if (!rulesCover(readRules(row.matches), usage.event, usage.model)) return "no_match";
  return (usage.quantities[row.unit] ?? 0) === 0 ? "wrong_unit" : "not_needed";
}
