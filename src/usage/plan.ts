import { fromSteps, presentQuantities } from "../amounts/amount.ts";
import { readRules, rulesCover } from "../amounts/match.ts";
import { type BalanceRow, inSpendingOrder, statusOf } from "../ledger/balance.ts";
import { burnDown, type Usage } from "../ledger/burn-down.ts";
import { afterReturn, dueHolds, readHold, spendable } from "../ledger/holds.ts";
import { everyBalance } from "../ledger/select-balances.ts";
import type { Ctx } from "../runtime.ts";
import type { PlanOutput } from "./answers.ts";
import type { PlanInput } from "./schemas.ts";

/**
 * What an event would debit if it came now: by the same burn-down, over the same state, due holds counted as returned;
 * and why each other balance would not pay. Changes nothing (U11).
 */
export async function plan(request: Ctx, input: PlanInput): Promise<PlanOutput> {
  const nowMs = request.now();
  const ctx = { ...request, now: () => nowMs };
  const [stored, due] = await ctx.db.batch([everyBalance(ctx, input.userId), dueHolds(ctx, input.userId)]);
  const rows = afterReturn(stored, due.map(readHold));
  const { legs, uncovered } = burnDown(spendable(rows, nowMs), input);
  const paying = new Set(legs.map((leg) => leg.balance.id));
  return {
    debits: legs.map(({ balance, amountSteps }) => ({
      balanceId: balance.id,
      packId: balance.packId,
      unit: balance.unit,
      amount: fromSteps(balance.unit, amountSteps),
      remaining: fromSteps(balance.unit, balance.remainingSteps - amountSteps),
    })),
    uncovered: uncovered === null ? null : presentQuantities(uncovered),
    skipped: inSpendingOrder(rows.filter((row) => !paying.has(row.id))).map((row) => ({
      balanceId: row.id,
      reason: whySkipped(row, input, nowMs),
    })),
  };
}

/** The first reason that holds. */
function whySkipped(row: BalanceRow, usage: Usage, nowMs: number): PlanOutput["skipped"][number]["reason"] {
  const status = statusOf(row, nowMs);
  if (status !== "active") return status;
  if (!rulesCover(readRules(row.matches), usage.event, usage.model)) return "no_match";
  return (usage.quantities[row.unit] ?? 0) === 0 ? "wrong_unit" : "not_needed";
}
