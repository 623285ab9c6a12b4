import { and, eq, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { computed, drizzle, fields, optional, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { accounts, type Minor, members, usageCounters, usageLimits } from "../../db/schema.ts";
import { all, type Statement } from "../../db/sql.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromMinor, type Unit } from "../amounts/amount.ts";
import { type MatchRule, readStoredRules } from "../amounts/match.ts";
import type { WindowLength } from "../ledger/calendar.ts";
import type { Counter } from "../ledger/counters.ts";
import { readLimitStatus, type UsageLimit } from "./count-usage.ts";

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

export const limitFields = () =>
  fields(usageLimits, "id", "name", "matches", "unit", "amountMinor", "every", "per", "timeZone", "utcOffsetMs");
export const counterFields = () =>
  optional({
    ...fields(usageCounters, "endMs", "usedMinor", "overrideMinor"),
    ...computed({ hasOverride: sql<0 | 1>`${usageCounters.hasOverride}` }),
  });

type LimitHolder = { environmentId: number; userId: string; memberIds: string };

const listedMember = alias(members, "listed_member");
/** Those of the listed ids that are the payer's members. */
const listedMembers = (value: ValueOf<LimitHolder>) => {
  const { memberId, memberNumber, accountId, environmentId } = members;
  return sql`(
    SELECT ${memberId}, ${memberNumber} FROM ${accounts} CROSS JOIN json_each(${value("memberIds")}) AS listed
    CROSS JOIN ${members} ON ${environmentId} = ${accounts.environmentId} AND ${memberId} = listed.value AND ${accountId} = ${accounts.id}
    WHERE ${accounts.environmentId} = ${value("environmentId")} AND ${accounts.userId} = ${value("userId")}
  ) AS ${listedMember}`;
};

/** The environment's limits, oldest first, each with the user's counter; a limit per member once for each listed member, or without one. */
const selectLimitsWithCounters = query((value: ValueOf<LimitHolder>) =>
  drizzle
    .select({
      ...limitFields(),
      ...counterFields(),
      ...computed({ memberId: sql<string | null>`${listedMember.memberId}` }),
    })
    .from(usageLimits)
    .leftJoin(
      accounts,
      and(eq(accounts.environmentId, usageLimits.environmentId), eq(accounts.userId, value("userId"))),
    )
    .leftJoin(listedMembers(value), eq(usageLimits.per, sql`'member'`))
    .leftJoin(
      usageCounters,
      and(
        eq(usageCounters.environmentId, usageLimits.environmentId),
        eq(usageCounters.limitId, usageLimits.id),
        eq(usageCounters.accountId, accounts.id),
        sql`${usageCounters.memberNumber} = iif(${usageLimits.per} = 'member', ${listedMember.memberNumber}, 0)`,
      ),
    )
    .where(
      and(
        eq(usageLimits.environmentId, value("environmentId")),
        sql`${usageLimits.isDeleted} = 0`,
        sql`(${usageLimits.per} = 'user' OR ${value("memberIds")} <> '[]')`,
      ),
    )
    .orderBy(usageLimits.ordinal),
);
/** A limit with a counter. `memberId` is that of a limit per member, if the member has used something. */
export type UserLimitRow = RowOf<ReturnType<typeof limitFields> & ReturnType<typeof counterFields>> & {
  readonly memberId: string | null;
};

export function selectUserLimits(
  { environment }: Pick<TenantCtx, "environment">,
  userId: string,
  memberIds: readonly string[],
): Statement<UserLimitRow> {
  return selectLimitsWithCounters({ environmentId: environment.id, userId, memberIds: JSON.stringify(memberIds) });
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

/** The limits that somebody may read. */
export interface LimitsReader {
  /** Whose limits per member are read; null for none. */
  readonly memberId: string | null;
  /** Whether the payer's own limits are read, too. A member reads only its own (ME5). */
  readonly isPayer: boolean;
}

/** Returns each limit once, with the counter of the user, or for a limit per member with the member's. */
export function limitsOfReader(rows: readonly UserLimitRow[], { memberId, isPayer }: LimitsReader, nowMs: number) {
  return [...Map.groupBy(rows, ({ id }) => id).values()].flatMap((ofLimit): UserLimitOutput[] => {
    const [first] = ofLimit;
    if (first === undefined || (first.per === "user" ? !isPayer : memberId === null)) return [];
    const row = first.per === "user" ? first : ofLimit.find((each) => each.memberId === memberId);
    const limit = presentUserLimit(limitOf(first), row && counterOf(row), nowMs);
    return [memberId === null ? limit : { ...limit, memberId: first.per === "user" ? null : memberId }];
  });
}

/**
 * A user's usage against the environment's usage limits (Q6), with a member's against the limits per member. An unknown user, or member,
 * has used nothing. Reads the members `memberIds` before `readerOf` says who reads, because the first trip verifies an end-user's token;
 * a reader who is not among them takes another.
 */
export async function readUserLimits(
  ctx: TenantCtx,
  userId: string,
  memberIds: readonly string[] = [],
  readerOf: () => LimitsReader = () => ({ memberId: memberIds[0] ?? null, isPayer: true }),
): Promise<UserLimitsOutput> {
  const rows = await all(ctx.db, selectUserLimits(ctx, userId, memberIds));
  const reader = readerOf();
  const { memberId } = reader;
  if (memberId !== null && !memberIds.includes(memberId)) return readUserLimits(ctx, userId, [memberId], () => reader);
  return { limits: limitsOfReader(rows, reader, ctx.now()) };
}
