import { and, eq, sql } from "drizzle-orm";
import {
  asInteger,
  assignments,
  computed,
  drizzle,
  fields,
  insertFrom,
  names,
  optional,
  query,
  type RowOf,
  type ValueOf,
} from "../../db/query.ts";
import { accounts, type Steps, usageCounters, usageLimits } from "../../db/schema.ts";
import { all, type Statement } from "../../db/sql.ts";
import { assert, invalid } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromSteps, type Unit } from "../amounts/amount.ts";
import { type MatchRule, readStoredRules } from "../amounts/match.ts";
import { accountOfWrite, type WriteContext, writingValues } from "../ledger/account.ts";
import type { WindowLength } from "../ledger/calendar.ts";
import type { Counter } from "../ledger/counters.ts";
import { replay, writeAll } from "../ledger/decision.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { writeForUser } from "../ledger/write.ts";
import { limitsOf, standingOf, type UsageLimit } from "./count-usage.ts";
import { readAmount, unknownLimit } from "./limits.ts";

export interface UserLimitOutput {
  readonly every: WindowLength;
  readonly amount: number | null;
  readonly used: number;
  readonly remaining: number | null;
  readonly resetsAt: string;
  readonly limitId: string;
  readonly name: string;
  readonly matches: MatchRule[];
  readonly unit: Unit;
}

export interface UserLimitsOutput {
  readonly limits: UserLimitOutput[];
}

export interface OwnAmountInput {
  readonly userId: string;
  /** In the limit's unit. Null: this user is unlimited. */
  readonly amount: number | null;
}

type OwnAmount = { limitId: string; hasOwnAmount: number; ownAmountSteps: number | null };

const upsertAmount = query((value: ValueOf<WriteContext & OwnAmount>) => {
  const ownAmount = {
    hasOwnAmount: asInteger(value("hasOwnAmount")),
    ownAmountSteps: asInteger(value("ownAmountSteps")),
  };
  const insert = insertFrom(
    usageCounters,
    {
      environmentId: asInteger(value("environmentId")),
      limitId: value("limitId"),
      accountId: accountOfWrite(value),
      ...ownAmount,
    },
    sql`WHERE 1`,
  );
  const { environmentId, limitId, accountId, hasOwnAmount, ownAmountSteps } = usageCounters;
  return sql`${insert} ON CONFLICT (${names(environmentId, limitId, accountId)}) DO UPDATE SET ${assignments(
    usageCounters,
    {
      hasOwnAmount: sql`excluded.${names(hasOwnAmount)}`,
      ownAmountSteps: sql`excluded.${names(ownAmountSteps)}`,
    },
  )}`;
});

function requireLimitOf({ features }: AccountAtRead, limitId: string): UsageLimit {
  const limit = limitsOf(features).find(({ id }) => id === limitId);
  if (limit === undefined) throw unknownLimit();
  return limit;
}

/**
 * Sets a user's own amount of a limit, or makes the user unlimited (Q2). It applies to the current window at once. An id without a
 * user becomes a user. Throws `not_found` and `invalid_request`.
 */
export function setOwnAmount(
  ctx: TenantCtx,
  limitId: string,
  { userId, amount }: OwnAmountInput,
): Promise<UserLimitOutput> {
  return changeOwnAmount(ctx, limitId, userId, ({ unit }) => {
    if (amount === null) return { hasOwnAmount: 1, ownAmountSteps: null };
    const ownAmount = readAmount(unit, amount);
    if ("flaw" in ownAmount) throw invalid("amount", ownAmount.flaw);
    return { hasOwnAmount: 1, ownAmountSteps: ownAmount.steps };
  });
}

/** Removes a user's own amount, so that the limit's amount applies again (Q2). No effect without one. Throws `not_found`. */
export function removeOwnAmount(ctx: TenantCtx, limitId: string, userId: string): Promise<UserLimitOutput> {
  return changeOwnAmount(ctx, limitId, userId, () => ({ hasOwnAmount: 0, ownAmountSteps: null }));
}

async function changeOwnAmount(
  ctx: TenantCtx,
  limitId: string,
  userId: string,
  ownAmountOf: (limit: UsageLimit) => Pick<Counter, "hasOwnAmount" | "ownAmountSteps">,
): Promise<UserLimitOutput> {
  const output = await writeForUser(ctx, {
    user: { userId },
    read: () => [],
    decide: (_, account) => {
      const limit = requireLimitOf(account, limitId);
      const ownAmount = ownAmountOf(limit);
      const before = account.counters?.get(limitId) ?? {
        ...{ limitId, windowMs: 0, usedSteps: 0 as Steps, hasOwnAmount: 0 as const, ownAmountSteps: null },
      };
      const returned = account.due
        .flatMap(({ counted }) => counted)
        .filter((count) => count.limitId === limitId && count.windowMs === before.windowMs)
        .reduce((sum, { steps }) => sum + steps, 0);
      const after = { ...before, ...ownAmount, usedSteps: Math.max(0, before.usedSteps - returned) as Steps };
      const answer = presentUserLimit(limit, after, account.nowMs);
      const isUnchanged =
        ownAmount.hasOwnAmount === before.hasOwnAmount && ownAmount.ownAmountSteps === before.ownAmountSteps;
      if (isUnchanged) return replay(answer);
      return writeAll([upsertAmount({ ...writingValues(account), limitId, ...ownAmount })], () => answer, {
        audit: { action: "usage_limit.amount_set", target: limitId },
        remembers: {},
      });
    },
  });
  assert(output !== null, "a user named by id is never unknown");
  return output;
}

export const limitFields = () => fields(usageLimits, "id", "name", "matches", "unit", "amountSteps", "every");
export const counterFields = () =>
  optional({
    ...fields(usageCounters, "windowMs", "usedSteps", "ownAmountSteps"),
    ...computed({ hasOwnAmount: sql<0 | 1>`${usageCounters.hasOwnAmount}` }),
  });

/** The environment's limits, oldest first, each with the user's counter. */
const selectLimitsWithCounters = query((value: ValueOf<{ environmentId: number; userId: string }>) =>
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
  return selectLimitsWithCounters({ environmentId: environment.id, userId });
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
export const limitOf = ({ matches, ...row }: UserLimitRow): UsageLimit => ({
  ...row,
  matches: readStoredRules(matches),
});

/** A user's usage against a limit, as the API returns it (Q6). */
function presentUserLimit(limit: UsageLimit, counter: Counter | undefined, nowMs: number): UserLimitOutput {
  const { id: limitId, name, unit, every } = limit;
  const { usedSteps, amountSteps, resetsAtMs } = standingOf(limit, counter, nowMs);
  const remainingOf = (steps: Steps) => fromSteps(unit, Math.max(0, steps - usedSteps) as Steps);
  return {
    ...{ limitId, name, matches: [...limit.matches], unit, every },
    amount: amountSteps === null ? null : fromSteps(unit, amountSteps),
    used: fromSteps(unit, usedSteps),
    remaining: amountSteps === null ? null : remainingOf(amountSteps),
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
