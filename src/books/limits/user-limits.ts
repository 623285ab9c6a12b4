import { and, eq, sql } from "drizzle-orm";
import { computed, drizzle, fields, optional, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { accounts, type Steps, usageCounters, usageLimits } from "../../db/schema.ts";
import { all, type Statement } from "../../db/sql.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromSteps } from "../amounts/amount.ts";
import { readRules } from "../amounts/match.ts";
import type { Counter } from "../ledger/counters.ts";
import { standingOf } from "./judge.ts";
import type { UsageLimit } from "./limit.ts";
import type { UserLimitOutput, UserLimitsOutput } from "./responses.ts";

export const limitFields = () => fields(usageLimits, "id", "name", "matches", "unit", "amountSteps", "every");
export const counterFields = () =>
  optional({
    ...fields(usageCounters, "windowMs", "usedSteps", "ownAmountSteps"),
    ...computed({ hasOwnAmount: sql<0 | 1>`${usageCounters.hasOwnAmount}` }),
  });

/** The environment's limits, oldest first, each with the user's counter. */
const selectLimits = query((value: ValueOf<{ environmentId: number; userId: string }>) =>
  drizzle
    .select({ ...limitFields(), ...counterFields() })
    .from(usageLimits)
    .leftJoin(
      accounts,
      and(eq(accounts.environmentId, usageLimits.environmentId), eq(accounts.userId, value("userId"))),
    )
    .leftJoin(
      usageCounters,
      and(
        eq(usageCounters.environmentId, usageLimits.environmentId),
        eq(usageCounters.limitId, usageLimits.id),
        eq(usageCounters.accountId, accounts.id),
      ),
    )
    .where(and(eq(usageLimits.environmentId, value("environmentId")), sql`${usageLimits.isDeleted} = 0`))
    .orderBy(usageLimits.ordinal),
);
export type UserLimitRow = RowOf<ReturnType<typeof limitFields> & ReturnType<typeof counterFields>>;

export function selectUserLimits(
  { environment }: Pick<TenantCtx, "environment">,
  userId: string,
): Statement<UserLimitRow> {
  return selectLimits({ environmentId: environment.id, userId });
}

/** The counter of a row. */
export function counterOf({
  id,
  windowMs,
  usedSteps,
  hasOwnAmount,
  ownAmountSteps,
}: UserLimitRow): Counter | undefined {
  if (windowMs === null || usedSteps === null || hasOwnAmount === null) return undefined;
  return { limitId: id, windowMs, usedSteps, hasOwnAmount, ownAmountSteps };
}

/** The limit of a row, in the form of the features. */
export const limitOf = ({ matches, ...row }: UserLimitRow): UsageLimit => ({ ...row, matches: readRules(matches) });

/** A user's usage against a limit, as the API returns it (Q6). */
export function presentUserLimit(limit: UsageLimit, counter: Counter | undefined, nowMs: number): UserLimitOutput {
  const { id: limitId, name, unit, every } = limit;
  const { usedSteps, amountSteps, resetsAtMs } = standingOf(limit, counter, nowMs);
  const remaining = (of: Steps) => fromSteps(unit, Math.max(0, of - usedSteps) as Steps);
  return {
    ...{ limitId, name, matches: [...limit.matches], unit, every },
    amount: amountSteps === null ? null : fromSteps(unit, amountSteps),
    used: fromSteps(unit, usedSteps),
    remaining: amountSteps === null ? null : remaining(amountSteps),
    resetsAt: iso(resetsAtMs),
  };
}

/** The limits of rows, as the API returns them. */
export function presentUserLimits(rows: readonly UserLimitRow[], nowMs: number): UserLimitOutput[] {
  return rows.map((row) => presentUserLimit(limitOf(row), counterOf(row), nowMs));
}

/** A user's usage against the environment's usage limits (Q6). An unknown user has used nothing. */
export async function readUserLimits(ctx: TenantCtx, { userId }: { userId: string }): Promise<UserLimitsOutput> {
  const rows = await all(ctx.db, selectUserLimits(ctx, userId));
  return { limits: presentUserLimits(rows, ctx.now()) };
}
