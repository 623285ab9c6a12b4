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
import { accounts, type Minor, usageCounters, usageLimits } from "../../db/schema.ts";
import { all, type Statement } from "../../db/sql.ts";
import { assert, invalid } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromMinor, type Unit } from "../amounts/amount.ts";
import { type MatchRule, readStoredRules } from "../amounts/match.ts";
import { accountOfWrite, type WriteContext, writingValues } from "../ledger/account.ts";
import type { WindowLength } from "../ledger/calendar.ts";
import type { Counter } from "../ledger/counters.ts";
import { replay, writeAll } from "../ledger/decision.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { writeForUser } from "../ledger/write.ts";
import { limitsOf, readLimitStatus, type UsageLimit } from "./count-usage.ts";
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

export interface OverrideInput {
  readonly userId: string;
  /** In the limit's unit. Null: this user is unlimited. */
  readonly amount: number | null;
}

type Override = { limitId: string; hasOverride: number; overrideMinor: number | null };

const upsertAmount = query((value: ValueOf<WriteContext & Override>) => {
  const override = {
    hasOverride: asInteger(value("hasOverride")),
    overrideMinor: asInteger(value("overrideMinor")),
  };
  const insert = insertFrom(
    usageCounters,
    {
      environmentId: asInteger(value("environmentId")),
      limitId: value("limitId"),
      accountId: accountOfWrite(value),
      ...override,
    },
    sql`WHERE 1`,
  );
  const { environmentId, limitId, accountId, hasOverride, overrideMinor } = usageCounters;
  return sql`${insert} ON CONFLICT (${names(environmentId, limitId, accountId)}) DO UPDATE SET ${assignments(
    usageCounters,
    {
      hasOverride: sql`excluded.${names(hasOverride)}`,
      overrideMinor: sql`excluded.${names(overrideMinor)}`,
    },
  )}`;
});

function requireLimitOf({ settingsSnapshot }: AccountAtRead, limitId: string): UsageLimit {
  const limit = limitsOf(settingsSnapshot).find(({ id }) => id === limitId);
  if (limit === undefined) throw unknownLimit();
  return limit;
}

/**
 * Sets a user's override of a limit, or makes the user unlimited (Q2). It applies to the current window at once. An id without a
 * user becomes a user. Throws `not_found` and `invalid_request`.
 */
export function setOverride(
  ctx: TenantCtx,
  limitId: string,
  { userId, amount }: OverrideInput,
): Promise<UserLimitOutput> {
  return changeOverride(ctx, limitId, userId, ({ unit }) => {
    if (amount === null) return { hasOverride: 1, overrideMinor: null };
    const override = readAmount(unit, amount);
    if ("rejection" in override) throw invalid("amount", override.rejection);
    return { hasOverride: 1, overrideMinor: override.minor };
  });
}

/** Removes a user's override, so that the limit's amount applies again (Q2). No effect without one. Throws `not_found`. */
export function removeOverride(ctx: TenantCtx, limitId: string, userId: string): Promise<UserLimitOutput> {
  return changeOverride(ctx, limitId, userId, () => ({ hasOverride: 0, overrideMinor: null }));
}

async function changeOverride(
  ctx: TenantCtx,
  limitId: string,
  userId: string,
  readOverride: (limit: UsageLimit) => Pick<Counter, "hasOverride" | "overrideMinor">,
): Promise<UserLimitOutput> {
  const output = await writeForUser(ctx, {
    user: { userId },
    read: () => [],
    decide: (_, account) => {
      const limit = requireLimitOf(account, limitId);
      const override = readOverride(limit);
      const before = account.counters?.get(limitId) ?? {
        ...{ limitId, windowMs: 0, usedMinor: 0 as Minor, hasOverride: 0 as const, overrideMinor: null },
      };
      const returned = account.due
        .flatMap(({ counted }) => counted)
        .filter((count) => count.limitId === limitId && count.windowMs === before.windowMs)
        .reduce((sum, { minor }) => sum + minor, 0);
      const after = { ...before, ...override, usedMinor: Math.max(0, before.usedMinor - returned) as Minor };
      const answer = presentUserLimit(limit, after, account.nowMs);
      const isUnchanged =
        override.hasOverride === before.hasOverride && override.overrideMinor === before.overrideMinor;
      if (isUnchanged) return replay(answer);
      return writeAll([upsertAmount({ ...writingValues(account), limitId, ...override })], () => answer, {
        audit: { action: "usage_limit.amount_set", target: limitId },
        remembers: {},
      });
    },
  });
  assert(output !== null, "a user named by id is never unknown");
  return output;
}

export const limitFields = () => fields(usageLimits, "id", "name", "matches", "unit", "amountMinor", "every");
export const counterFields = () =>
  optional({
    ...fields(usageCounters, "windowMs", "usedMinor", "overrideMinor"),
    ...computed({ hasOverride: sql<0 | 1>`${usageCounters.hasOverride}` }),
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
export function counterOf({ id, windowMs, usedMinor, hasOverride, overrideMinor }: UserLimitRow): Counter | undefined {
  if (windowMs === null || usedMinor === null || hasOverride === null) return undefined;
  return { limitId: id, windowMs, usedMinor, hasOverride, overrideMinor };
}

/** The limit of a row, in the form of the settings snapshot. */
export const limitOf = ({ matches, ...row }: UserLimitRow): UsageLimit => ({
  ...row,
  matches: readStoredRules(matches),
});

/** A user's usage against a limit, as the API returns it (Q6). */
export function presentUserLimit(limit: UsageLimit, counter: Counter | undefined, nowMs: number): UserLimitOutput {
  const { id: limitId, name, unit, every } = limit;
  const { usedMinor, amountMinor, resetsAtMs } = readLimitStatus(limit, counter, nowMs);
  const remainingOf = (minor: Minor) => fromMinor(unit, Math.max(0, minor - usedMinor) as Minor);
  return {
    ...{ limitId, name, matches: [...limit.matches], unit, every },
    amount: amountMinor === null ? null : fromMinor(unit, amountMinor),
    used: fromMinor(unit, usedMinor),
    remaining: amountMinor === null ? null : remainingOf(amountMinor),
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
