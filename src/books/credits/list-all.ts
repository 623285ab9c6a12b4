import { batch } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { type BalanceRow, inSpendingOrder, presentBalance } from "../ledger/balance.ts";
import { selectActiveUpTo, selectBalancesUpTo } from "../ledger/select-balances.ts";

export interface BalanceList {
  /** In spending order, balances that can pay before others; with their source and notes. */
  readonly balances: readonly (ReturnType<typeof presentBalance> & Pick<BalanceRow, "source" | "notes">)[];
  /** Whether the user has more balances than are in the list. */
  readonly isTruncated: boolean;
}

/** A user's balances for the dashboard: at most `limit` that can pay and `limit` others, so that the cost is bounded. */
export async function listAllBalances(ctx: TenantCtx, userId: string, limit: number): Promise<BalanceList> {
  const nowMs = ctx.now();
  const [live, some] = await batch(ctx.db, [
    selectActiveUpTo(ctx, { userId }, { nowMs, limit: limit + 1 }),
    selectBalancesUpTo(ctx, { userId }, { limit: limit + 1 }),
  ]);
  const inOrder = (rows: readonly BalanceRow[]) =>
    inSpendingOrder(rows).map((row) => ({ ...presentBalance(row, nowMs), source: row.source, notes: row.notes }));
  const shown = new Set(live.map((row) => row.id));
  const others = some.filter((row) => !shown.has(row.id));
  return {
    balances: [...inOrder(live.slice(0, limit)), ...inOrder(others).slice(0, limit)],
    isTruncated: live.length > limit || some.length > limit,
  };
}
