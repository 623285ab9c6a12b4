import { readRules, rulesPassFilter } from "../amounts/match.ts";
import { all } from "../db/sql.ts";
import { inSpendingOrder, presentBalance } from "../ledger/balance.ts";
import { selectActive, selectAllBalances } from "../ledger/select-balances.ts";
import type { TenantCtx } from "../runtime.ts";
import type { ListOutput } from "./responses.ts";
import type { ListInput } from "./schemas.ts";

/**
 * The user's balances in spending order: the active ones, or all with `includeExpired`. With `event`, only those whose rules
 * match it (C4, C12, C13). An unknown user has none.
 */
export async function listBalances(ctx: TenantCtx, input: ListInput): Promise<ListOutput> {
  const { userId, event } = input;
  // The query and the statuses use the same time, so that they agree.
  const nowMs = ctx.now();
  const statement = input.includeExpired
    ? selectAllBalances(ctx, { userId }, {})
    : selectActive(ctx, { userId }, { nowMs });
  const rows = await all(ctx.db, statement);
  const covering = rows.filter((row) => event === undefined || rulesPassFilter(readRules(row.matches), event));
  return { credits: inSpendingOrder(covering).map((row) => presentBalance(row, nowMs)) };
}
