import { sql } from "drizzle-orm";
import { readRules, rulesPassFilter } from "../amounts/match.ts";
import { selecting } from "../db/prepared.ts";
import { creditBalances } from "../db/schema.ts";
import { inSpendingOrder, presentBalance, presentedColumns } from "../ledger/balance.ts";
import { everyBalance, isLiveOf } from "../ledger/select-balances.ts";
import type { Ctx } from "../runtime.ts";
import type { ListOutput } from "./answers.ts";
import type { ListInput } from "./schemas.ts";

// One index range, however many are dead.
const selectLive = selecting(presentedColumns, creditBalances, isLiveOf(sql`${sql.placeholder("userId")}`));

/**
 * The user's balances in spending order: those that are active, or all with `includeExpired`; with `event`, those whose
 * rules cover it (C4, C12, C13). An unknown user has none.
 */
export async function list(ctx: Ctx, input: ListInput): Promise<ListOutput> {
  const { userId, event } = input;
  // One moment for the query and for the statuses: what is live in the one is active in the other.
  const nowMs = ctx.now();
  const rows = await (input.includeExpired
    ? everyBalance(ctx, userId)
    : selectLive(ctx.db, { environmentId: ctx.environment.id, userId, nowMs }));
  const covering = rows.filter((row) => event === undefined || rulesPassFilter(readRules(row.matches), event));
  return { credits: inSpendingOrder(covering).map((row) => presentBalance(row, nowMs)) };
}
