import { sql } from "drizzle-orm";
import { asInteger, assignments, insertFrom, names, query, type ValueOf } from "../../db/query.ts";
import { type Steps, usageCounters } from "../../db/schema.ts";
import { invalid } from "../../errors.ts";
import { assert } from "../../lib/assert.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountOfWrite, type WriteContext, writingValues } from "../ledger/account.ts";
import type { Counter } from "../ledger/counters.ts";
import { replay, writeAll } from "../ledger/decision.ts";
import type { AccountAtRead } from "../ledger/send.ts";
import { writeForUser } from "../ledger/write.ts";
import { limitsOf, type UsageLimit } from "./limit.ts";
import { unknownLimit } from "./limits.ts";
import type { UserLimitOutput } from "./responses.ts";
import { type OwnAmountInput, readAmount } from "./schemas.ts";
import { presentUserLimit } from "./user-limits.ts";

type OwnAmount = { limitId: string; hasOwn: number; own: number | null };

const upsertAmount = query((value: ValueOf<WriteContext & OwnAmount>) => {
  const own = { hasOwnAmount: asInteger(value("hasOwn")), ownAmountSteps: asInteger(value("own")) };
  const insert = insertFrom(
    usageCounters,
    {
      environmentId: asInteger(value("environmentId")),
      limitId: value("limitId"),
      accountId: accountOfWrite(value),
      ...own,
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

function requireKnown({ features }: AccountAtRead, limitId: string): UsageLimit {
  const limit = limitsOf(features).find(({ id }) => id === limitId);
  if (limit === undefined) throw unknownLimit();
  return limit;
}

/**
 * Sets a user's own amount of a limit, or makes them unlimited (Q2), with immediate effect on the current window. Makes the id a
 * user. Throws `not_found` and `invalid_request`.
 */
export function setOwnAmount(
  ctx: TenantCtx,
  limitId: string,
  { userId, amount }: OwnAmountInput,
): Promise<UserLimitOutput> {
  return changeOwnAmount(ctx, limitId, userId, ({ unit }) => {
    if (amount === null) return { hasOwnAmount: 1, ownAmountSteps: null };
    const read = readAmount(unit, amount);
    if ("flaw" in read) throw invalid("amount", read.flaw);
    return { hasOwnAmount: 1, ownAmountSteps: read.steps };
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
  ownOf: (limit: UsageLimit) => Pick<Counter, "hasOwnAmount" | "ownAmountSteps">,
): Promise<UserLimitOutput> {
  const output = await writeForUser(ctx, {
    user: { userId },
    read: () => [],
    decide: (_, account) => {
      const limit = requireKnown(account, limitId);
      const own = ownOf(limit);
      const before = account.counters?.get(limitId) ?? {
        ...{ limitId, windowMs: 0, usedSteps: 0 as Steps, hasOwnAmount: 0 as const, ownAmountSteps: null },
      };
      const returned = account.due
        .flatMap(({ counted }) => counted)
        .filter((one) => one.limitId === limitId && one.windowMs === before.windowMs)
        .reduce((sum, { steps }) => sum + steps, 0);
      const after = { ...before, ...own, usedSteps: Math.max(0, before.usedSteps - returned) as Steps };
      const answer = presentUserLimit(limit, after, account.nowMs);
      const isSame = own.hasOwnAmount === before.hasOwnAmount && own.ownAmountSteps === before.ownAmountSteps;
      if (isSame) return replay(answer);
      const values = { limitId, hasOwn: own.hasOwnAmount, own: own.ownAmountSteps };
      return writeAll([upsertAmount({ ...writingValues(account), ...values })], () => answer, {
        act: { action: "usage_limit.amount_set", target: limitId },
        changes: { entries: [] },
      });
    },
  });
  assert(output !== null, "a user named by id is never unknown");
  return output;
}
