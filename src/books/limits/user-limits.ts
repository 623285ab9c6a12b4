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
import { accounts, type Minor, members, usageCounters, usageLimits } from "../../db/schema.ts";
import { all, type Statement } from "../../db/sql.ts";
import { assert, invalid } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromMinor, type Unit } from "../amounts/amount.ts";
import { type MatchRule, readStoredRules } from "../amounts/match.ts";
import { accountOfWrite, type WriteContext, writingValues } from "../ledger/account.ts";
import type { WindowLength } from "../ledger/calendar.ts";
import { type Counter, counterKey } from "../ledger/counters.ts";
import { replay, writeAll } from "../ledger/decision.ts";
import { memberOfUsage, memberOfWrite } from "../ledger/payer-members.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { writeForUser } from "../ledger/write.ts";
import { limitsOf, readLimitStatus, returnedMinor, type UsageLimit } from "./count-usage.ts";
import { readAmount, unknownLimit } from "./limits.ts";

export interface UserLimitOutput {
  /** Present only if a member was asked for. Null for the payer's. */
  readonly memberId?: string | null | undefined;
  readonly every: WindowLength;
  readonly timeZone: string | null;
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

export interface HolderInput {
  readonly userId: string;
  /** Required for a limit per member, and rejected for others (ME2). */
  readonly memberId?: string | undefined;
}

export interface OverrideInput extends HolderInput {
  /** In the limit's unit. Null: this user is unlimited. */
  readonly amount: number | null;
}

type Override = { limitId: string; memberId: string | null; hasOverride: number; overrideMinor: number | null };

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
      memberNumber: sql`coalesce(${memberOfWrite(value)}, 0)`,
      ...override,
    },
    sql`WHERE 1`,
  );
  const { environmentId, limitId, accountId, memberNumber, hasOverride, overrideMinor } = usageCounters;
  return sql`${insert} ON CONFLICT (${names(environmentId, limitId, accountId, memberNumber)}) DO UPDATE SET ${assignments(
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

/** Throws `invalid_request` unless a member is named for a limit per member, and for no other (ME2). */
function assertHolder({ per }: UsageLimit, memberId: string | null): void {
  if (per === "member" && memberId === null) throw invalid("memberId", "is required: the limit is per member");
  if (per === "user" && memberId !== null) throw invalid("memberId", "must not be sent: the limit is per user");
}

/**
 * Sets a user's override of a limit, or makes the user unlimited (Q2). It applies to the current window at once. An id without a
 * user becomes a user. Throws `not_found` and `invalid_request`.
 */
export function setOverride(
  ctx: TenantCtx,
  limitId: string,
  { amount, ...holder }: OverrideInput,
): Promise<UserLimitOutput> {
  return changeOverride(ctx, limitId, holder, ({ unit }) => {
    if (amount === null) return { hasOverride: 1, overrideMinor: null };
    const override = readAmount(unit, amount);
    if ("rejection" in override) throw invalid("amount", override.rejection);
    return { hasOverride: 1, overrideMinor: override.minor };
  });
}

/** Removes a user's override, so that the limit's amount applies again (Q2). No effect without one. Throws `not_found`. */
export function removeOverride(ctx: TenantCtx, limitId: string, holder: HolderInput): Promise<UserLimitOutput> {
  return changeOverride(ctx, limitId, holder, () => ({ hasOverride: 0, overrideMinor: null }));
}

async function changeOverride(
  ctx: TenantCtx,
  limitId: string,
  { userId, memberId: named }: HolderInput,
  readOverride: (limit: UsageLimit) => Pick<Counter, "hasOverride" | "overrideMinor">,
): Promise<UserLimitOutput> {
  const output = await writeForUser(ctx, {
    user: { userId },
    members: named === undefined ? [] : [named],
    read: () => [],
    decide: (_, account) => {
      const limit = requireLimitOf(account, limitId);
      const memberId = memberOfUsage(account.members, named, false);
      assertHolder(limit, memberId);
      const override = readOverride(limit);
      const before = account.counters?.get(counterKey(limitId, memberId)) ?? {
        ...{ limitId, memberId, endMs: 0, usedMinor: 0 as Minor, hasOverride: 0 as const, overrideMinor: null },
      };
      const returned = returnedMinor(account.due, before);
      const after = { ...before, ...override, usedMinor: Math.max(0, before.usedMinor - returned) as Minor };
      const answer = {
        ...presentUserLimit(limit, after, account.nowMs),
        ...(memberId === null ? {} : { memberId }),
      };
      const isUnchanged =
        override.hasOverride === before.hasOverride && override.overrideMinor === before.overrideMinor;
      if (isUnchanged) return replay(answer);
      return writeAll([upsertAmount({ ...writingValues(account), limitId, memberId, ...override })], () => answer, {
        audit: { action: "usage_limit.amount_set", target: limitId },
        members: memberId === null ? [] : [memberId],
        remembers: {},
      });
    },
  });
  assert(output !== null, "a user named by id is never unknown");
  return output;
}

export const limitFields = () =>
  fields(usageLimits, "id", "name", "matches", "unit", "amountMinor", "every", "per", "timeZone", "utcOffsetMs");
export const counterFields = () =>
  optional({
    ...fields(usageCounters, "endMs", "usedMinor", "overrideMinor"),
    ...computed({ hasOverride: sql<0 | 1>`${usageCounters.hasOverride}` }),
  });

type LimitHolder = { environmentId: number; userId: string; memberId: string | null };

/** The environment's limits, oldest first, each with the user's counter, or with the member's for a limit per member. */
const selectLimitsWithCounters = query((value: ValueOf<LimitHolder>) =>
  drizzle
    .select({
      ...limitFields(),
      ...counterFields(),
      ...computed({ memberId: sql<string | null>`iif(${usageLimits.per} = 'member', ${value("memberId")}, NULL)` }),
    })
    .from(usageLimits)
    .leftJoin(
      accounts,
      and(eq(accounts.environmentId, usageLimits.environmentId), eq(accounts.userId, value("userId"))),
    )
    .leftJoin(
      members,
      and(
        eq(members.environmentId, usageLimits.environmentId),
        sql`${members.memberId} = ${value("memberId")}`,
        eq(members.accountId, accounts.id),
      ),
    )
    .leftJoin(
      usageCounters,
      and(
        eq(usageCounters.environmentId, usageLimits.environmentId),
        eq(usageCounters.limitId, usageLimits.id),
        eq(usageCounters.accountId, accounts.id),
        sql`${usageCounters.memberNumber} = iif(${usageLimits.per} = 'member', ${members.memberNumber}, 0)`,
      ),
    )
    .where(
      and(
        eq(usageLimits.environmentId, value("environmentId")),
        sql`${usageLimits.isDeleted} = 0`,
        sql`(${usageLimits.per} = 'user' OR ${value("memberId")} IS NOT NULL)`,
      ),
    )
    .orderBy(usageLimits.ordinal),
);
/** A limit with a counter. `memberId` is that of a limit per member. */
export type UserLimitRow = RowOf<ReturnType<typeof limitFields> & ReturnType<typeof counterFields>> & {
  readonly memberId: string | null;
};

export function selectUserLimits(
  { environment }: Pick<TenantCtx, "environment">,
  userId: string,
  memberId: string | null = null,
): Statement<UserLimitRow> {
  return selectLimitsWithCounters({ environmentId: environment.id, userId, memberId });
}

/** The counter of a row. */
export function counterOf({
  id,
  memberId,
  endMs,
  usedMinor,
  hasOverride,
  overrideMinor,
}: UserLimitRow): Counter | undefined {
  if (endMs === null || usedMinor === null || hasOverride === null) return undefined;
  return { limitId: id, memberId, endMs, usedMinor, hasOverride, overrideMinor };
}

/** The limit of a row, in the form of the settings snapshot. */
export const limitOf = ({ matches, memberId: _, ...row }: UserLimitRow): UsageLimit => ({
  ...row,
  matches: readStoredRules(matches),
});

/** A user's usage against a limit, as the API returns it (Q6). */
export function presentUserLimit(limit: UsageLimit, counter: Counter | undefined, nowMs: number): UserLimitOutput {
  const { id: limitId, name, unit, every, timeZone } = limit;
  const { usedMinor, amountMinor, endMs } = readLimitStatus(limit, counter, nowMs);
  const remainingOf = (minor: Minor) => fromMinor(unit, Math.max(0, minor - usedMinor) as Minor);
  return {
    ...{ limitId, name, matches: [...limit.matches], unit, every, timeZone },
    amount: amountMinor === null ? null : fromMinor(unit, amountMinor),
    used: fromMinor(unit, usedMinor),
    remaining: amountMinor === null ? null : remainingOf(amountMinor),
    resetsAt: iso(endMs),
  };
}

/** The limits of rows, as the API returns them. */
export function presentUserLimits(rows: readonly UserLimitRow[], nowMs: number): UserLimitOutput[] {
  return rows.map((row) => presentUserLimit(limitOf(row), counterOf(row), nowMs));
}

/** A member's usage against the limits per member, without the payer's (ME5). */
export async function readMemberLimits(
  ctx: TenantCtx,
  holder: HolderInput & { readonly memberId: string },
): Promise<UserLimitsOutput> {
  const { limits } = await readUserLimits(ctx, holder);
  return { limits: limits.filter(({ memberId }) => memberId === holder.memberId) };
}

/**
 * A user's usage against the environment's usage limits (Q6), with a member's against the limits per member if one is named. An unknown
 * user, or member, has used nothing.
 */
export async function readUserLimits(ctx: TenantCtx, { userId, memberId }: HolderInput): Promise<UserLimitsOutput> {
  const rows = await all(ctx.db, selectUserLimits(ctx, userId, memberId));
  const limits = presentUserLimits(rows, ctx.now());
  if (memberId === undefined) return { limits };
  return { limits: limits.map((limit, index) => ({ ...limit, memberId: rows[index]?.memberId ?? null })) };
}
