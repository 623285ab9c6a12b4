import { and, eq, gt, type Placeholder, type SQLWrapper, sql } from "drizzle-orm";
import { creditBalances } from "../db/schema.ts";
import type { Ctx } from "../runtime.ts";

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
