import { and, eq, gt, type Placeholder, type SQLWrapper, sql } from "drizzle-orm";
import type { Ctx } from "../context.ts";
import { selecting } from "../db/prepared.ts";
import { creditBalances } from "../db/schema.ts";
import type { ListOutput } from "./answers.ts";
import { inSpendingOrder, presentBalance, presentedColumns } from "./balance.ts";
import { readRules, rulesPassFilter } from "./match.ts";
import type { ListInput } from "./schemas.ts";

const isLive = (environmentId: number | Placeholder, userId: string | SQLWrapper, nowMs: number | Placeholder) =>
  and(
    eq(creditBalances.environmentId, environmentId),
    eq(creditBalances.userId, userId),
    // Written out, so that the planner sees the partial index's own condition.
    sql`is_live = 1`,
    gt(creditBalances.expiresAtMs, nowMs),
  );

/** Whether a balance of a user can pay at `nowMs`, for statements that are prepared. */
export const isLiveOf = (user: SQLWrapper) => isLive(sql.placeholder("environmentId"), user, sql.placeholder("nowMs"));
// One index range, however many are dead.
const selectLive = selecting(presentedColumns, creditBalances, isLiveOf(sql`${sql.placeholder("userId")}`));

/** The user's balances that can pay now, all of each, as a query of Drizzle's, which may be narrowed further. */
export function liveBalancesQuery(ctx: Ctx, userId: string, nowMs: number) {
  return ctx.db
    .select()
    .from(creditBalances)
    .where(isLive(ctx.environment.id, userId, nowMs));
}

export function everyBalance(ctx: Ctx, userId: string) {
  return ctx.db
    .select()
    .from(creditBalances)
    .where(and(eq(creditBalances.environmentId, ctx.environment.id), eq(creditBalances.userId, userId)));
}

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
