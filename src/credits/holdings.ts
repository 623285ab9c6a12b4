import { and, eq, gt, sql } from "drizzle-orm";
import type { Ctx } from "../context.ts";
import { creditBalances } from "../db/schema.ts";
import { asSpendable, type BalanceRow, presentBalance } from "./balance.ts";
import { spendingOrder } from "./burn-down.ts";

export interface Holdings {
  /** In spending order, whatever can pay before whatever cannot; with why it was issued. */
  readonly balances: readonly (ReturnType<typeof presentBalance> & Pick<BalanceRow, "source" | "notes">)[];
  /** Whether the user has more than are shown. */
  readonly isCut: boolean;
}

/** A user's balances for people to look at, at most `limit` of each kind, so that it costs the same for every user. */
export async function holdings(ctx: Ctx, userId: string, limit: number): Promise<Holdings> {
  const nowMs = ctx.now();
  const ofUser = and(eq(creditBalances.environmentId, ctx.environment.id), eq(creditBalances.userId, userId));
  const [live, some] = await ctx.db.batch([
    ctx.db
      .select()
      .from(creditBalances)
      .where(and(ofUser, sql`is_live = 1`, gt(creditBalances.expiresAtMs, nowMs)))
      .limit(limit + 1),
    ctx.db
      .select()
      .from(creditBalances)
      .where(ofUser)
      .limit(limit + 1),
  ]);
  const inOrder = (rows: readonly BalanceRow[]) =>
    rows
      .map((row) => ({ row, order: asSpendable(row) }))
      .sort((a, b) => spendingOrder(a.order, b.order))
      .map(({ row }) => ({ ...presentBalance(row, nowMs), source: row.source, notes: row.notes }));
  const shown = new Set(live.map((row) => row.id));
  const others = some.filter((row) => !shown.has(row.id));
  return {
    balances: [...inOrder(live.slice(0, limit)), ...inOrder(others).slice(0, limit)],
    isCut: live.length > limit || some.length > limit,
  };
}
