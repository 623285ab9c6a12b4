import { sql } from "drizzle-orm";
import { asInteger, assignments, insertFrom, names, query, type ValueOf } from "../../db/query.ts";
import { type Minor, usageCounters } from "../../db/schema.ts";
import { assert, invalid } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountOfWrite, type WriteContext, writingValues } from "../ledger/account.ts";
import { type Counter, counterKey } from "../ledger/counters.ts";
import { replay, writeAll } from "../ledger/decision.ts";
import { memberOfUsage, memberOfWrite } from "../ledger/payer-members.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { returnedHolds } from "../ledger/settle.ts";
import { writeForUser } from "../ledger/write.ts";
import { parseLimits, returnedMinor, type UsageLimit } from "./count-usage.ts";
import { readAmount, unknownLimit } from "./limits.ts";
import { presentUserLimit, type UserLimitOutput } from "./read-user-limits.ts";

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
  const limit = parseLimits(settingsSnapshot).find(({ id }) => id === limitId);
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
      const returned = returnedMinor(returnedHolds(account.settled), before);
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
