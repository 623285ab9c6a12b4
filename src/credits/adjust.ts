import { and, eq, getTableColumns, sql } from "drizzle-orm";
import { amountStepsMax, fromSteps, toSteps } from "../amounts/amount.ts";
import { creditAdjustments, creditBalances, creditLedger, environments } from "../db/schema.ts";
import { rows, write } from "../db/statement.ts";
import { invalid, PurserError, temporarilyUnavailable } from "../errors.ts";
import type { BalanceRow } from "../ledger/balance.ts";
import { appending } from "../ledger/entries.ts";
import { dueHolds, type Hold, readHold, settleDue, stepsOnHold } from "../ledger/holds.ts";
import type { AdminCtx, Ctx } from "../runtime.ts";
import type { AdjustOutput } from "./answers.ts";
import { balanceNotFound } from "./revoke.ts";

export interface AdjustInput {
  readonly balanceId: string;
  /** In the balance's unit. */
  readonly delta: number;
  readonly note: string;
  /** Made before the form was shown, so that sending the form twice adjusts once; a new one each time unless given. */
  readonly adjustmentId?: string;
}

/** An attempt fails only when what forbade the adjustment as it landed was gone again when it was asked why. */
const ATTEMPTS_MAX = 8;

/**
 * Adds to a balance or takes from it by the administrator's word: one `admin_adjust` in the ledger, with the note. The
 * balance's own environment is worked in. An expired balance may be adjusted and stays expired.
 *
 * Throws `credit_balance_not_found`, `invalid_quantity` (below 0), `invalid_request` (an amount that the unit cannot
 * hold, a revoked balance, more than a balance may hold together with what is reserved of it).
 */
export async function adjust(root: AdminCtx, input: AdjustInput): Promise<AdjustOutput> {
  const { ctx, userId, due } = await contextOf(root, input.balanceId);
  await settleDue(ctx, userId, due);
  const adjustmentId = input.adjustmentId ?? root.newId("adj_");
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const { balance, landed, heldSteps } = await read(ctx, userId, input.balanceId, adjustmentId);
    if (landed !== null) return present(balance, landed);
    const deltaSteps = decide(balance, heldSteps, input.delta);
    const remainingSteps = await land(ctx, balance, adjustmentId, deltaSteps, input.note);
    if (remainingSteps !== null) return present(balance, remainingSteps);
  }
  throw temporarilyUnavailable("The balance is being changed by others; try again.");
}

const present = (balance: BalanceRow, remainingSteps: number): AdjustOutput => ({
  balanceId: balance.id,
  remaining: fromSteps(balance.unit, remainingSteps),
});

/** A balance's id is unique among all applications, so it says by itself where the administrator is at work. */
async function contextOf(
  root: AdminCtx,
  balanceId: string,
): Promise<{ ctx: Ctx; userId: string; due: readonly Hold[] }> {
  const [found] = await root.db
    .select({
      userId: creditBalances.userId,
      id: environments.id,
      appId: environments.appId,
      mode: environments.mode,
    })
    .from(creditBalances)
    .innerJoin(environments, eq(environments.id, creditBalances.environmentId))
    .where(eq(creditBalances.id, balanceId));
  if (found === undefined) throw balanceNotFound();
  const { userId, ...environment } = found;
  const ctx: Ctx = { ...root, environment, caller: root.caller };
  return { ctx, userId, due: (await dueHolds(ctx, userId)).map(readHold) };
}

/** The balance as it stands, what open reservations hold of it, and what this adjustment left if it landed before. */
async function read(ctx: Ctx, userId: string, balanceId: string, adjustmentId: string) {
  const environmentId = ctx.environment.id;
  const [[balance], landed, held] = await ctx.db.batch([
    ctx.db
      .select(getTableColumns(creditBalances))
      .from(creditBalances)
      .where(
        and(
          eq(creditBalances.environmentId, environmentId),
          eq(creditBalances.userId, userId),
          eq(creditBalances.id, balanceId),
        ),
      ),
    whatLanded(ctx, adjustmentId),
    rows<{ steps: number }>(ctx.db, sql`SELECT ${stepsOnHold(ctx, userId, balanceId)} AS steps`),
  ]);
  if (balance === undefined) throw balanceNotFound();
  return { balance, landed: landed[0]?.remainingSteps ?? null, heldSteps: held[0]?.steps ?? 0 };
}

function whatLanded(ctx: Ctx, adjustmentId: string) {
  return ctx.db
    .select({ remainingSteps: creditLedger.balanceAfterSteps })
    .from(creditAdjustments)
    .innerJoin(
      creditLedger,
      and(
        eq(creditLedger.environmentId, creditAdjustments.environmentId),
        eq(creditLedger.userId, creditAdjustments.userId),
        eq(creditLedger.seq, creditAdjustments.seq),
      ),
    )
    .where(and(eq(creditAdjustments.environmentId, ctx.environment.id), eq(creditAdjustments.id, adjustmentId)));
}

function decide(balance: BalanceRow, heldSteps: number, delta: number): number {
  if (balance.revokedAtMs !== null) throw invalid("balanceId", "The balance is revoked.");
  const deltaSteps = toSteps(balance.unit, delta);
  if (deltaSteps === null) {
    throw invalid("delta", "has more decimals than the balance's unit, or is larger than it can hold");
  }
  const remainingSteps = balance.remainingSteps + deltaSteps;
  if (remainingSteps < 0) {
    throw new PurserError("invalid_quantity", "would leave less than nothing", { param: "delta" });
  }
  // What is reserved may come back, and must find room.
  if (remainingSteps + heldSteps > amountStepsMax[balance.unit]) {
    throw invalid("delta", "would leave more than a balance can hold");
  }
  return deltaSteps;
}

/** Appends the motion of the adjustment whose row stands just before it. */
const appendedAsAdjusted = appending(sql`EXISTS (
  SELECT 1 FROM credit_adjustments AS a
  WHERE a.environment_id = ${sql.placeholder("environmentId")} AND a.id = ${sql.placeholder("adjustmentId")}
    AND a.seq = last.seq + 1
)`);

/**
 * One batch, held back by what `decide` refuses, as the balance stands by now, and when the adjustment landed before: so
 * that any number of adjustments at once all land. Answers what then remains in steps; null when it was held back.
 */
async function land(
  ctx: Ctx,
  balance: BalanceRow,
  adjustmentId: string,
  deltaSteps: number,
  note: string,
): Promise<number | null> {
  const environmentId = ctx.environment.id;
  const { userId, id: balanceId, unit } = balance;
  const delta = sql`CAST(${deltaSteps} AS INTEGER)`;
  const room = sql`CAST(${amountStepsMax[unit]} AS INTEGER) - ${stepsOnHold(ctx, userId, balanceId)}`;
  const [, , landed] = await ctx.db.batch([
    write(
      ctx.db,
      sql`
      INSERT INTO credit_adjustments (environment_id, id, balance_id, user_id, seq)
      SELECT environment_id, ${adjustmentId}, id, user_id, 1 + (
          SELECT seq FROM credit_ledger
          WHERE environment_id = ${environmentId} AND user_id = ${userId} ORDER BY seq DESC LIMIT 1
        )
      FROM credit_balances
      WHERE environment_id = ${environmentId} AND user_id = ${userId} AND id = ${balanceId}
        AND revoked_at_ms IS NULL AND remaining_steps + ${delta} BETWEEN 0 AND ${room}
        AND NOT EXISTS (
          SELECT 1 FROM credit_adjustments WHERE environment_id = ${environmentId} AND id = ${adjustmentId}
        )`,
    ),
    appendedAsAdjusted(ctx, userId, [{ balanceId, deltaSteps, reason: "admin_adjust", note }], { adjustmentId }),
    whatLanded(ctx, adjustmentId),
  ]);
  return landed[0]?.remainingSteps ?? null;
}
