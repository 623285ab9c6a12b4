import { and, eq, sql } from "drizzle-orm";
import { boundLimit, drizzle, fields, optional, query, type ValueOf } from "../../db/query.ts";
import { accounts, members, usageCounters, usageLimits } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { cutPage, decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import {
  counterFields,
  counterOf,
  limitFields,
  limitOf,
  presentUserLimit,
  type UserLimitOutput,
} from "./read-user-limits.ts";

/** A user who has used all of a limit in its current window. */
export type UserAtLimit = UserLimitOutput & { readonly userId: string };

/** How many counters one page examines. */
const EXAMINED_COUNTERS_MAX = 2_000;

type CounterPage = { environmentId: number; limitId: string; accountId: number; memberNumber: number; limit: number };

const selectCounters = query((value: ValueOf<CounterPage>) => {
  const { environmentId, limitId, accountId, memberNumber } = usageCounters;
  const page = sql`SELECT * FROM ${usageCounters} WHERE ${environmentId} = ${value("environmentId")}
    AND (${limitId}, ${accountId}, ${memberNumber})
      > (${value("limitId")}, ${value("accountId")}, ${value("memberNumber")})
    ORDER BY ${limitId}, ${accountId}, ${memberNumber} LIMIT ${EXAMINED_COUNTERS_MAX + 1}`;
  return drizzle
    .select({
      ...limitFields(),
      ...counterFields(),
      ...fields(accounts, { userId: "userId", accountId: "id", isErased: "isErased" }),
      ...fields(usageLimits, "isDeleted"),
      ...fields(usageCounters, "memberNumber"),
      ...optional(fields(members, "memberId")),
    })
    .from(sql`(${page}) AS ${usageCounters}`)
    .crossJoin(usageLimits)
    .crossJoin(accounts)
    .leftJoin(members, and(eq(members.accountId, accountId), eq(members.memberNumber, memberNumber)))
    .where(
      and(
        eq(usageLimits.environmentId, value("environmentId")),
        eq(usageLimits.id, limitId),
        eq(accounts.id, accountId),
      ),
    )
    .orderBy(limitId, accountId, memberNumber)
    .limit(boundLimit(value("limit")));
});

/**
 * Returns the users who are at a limit now, by limit. A page examines `EXAMINED_COUNTERS_MAX` counters, so it may be short or empty
 * although other pages follow. Throws `invalid_request` for another list's cursor.
 */
export async function listReached(
  ctx: TenantCtx,
  cursor: string | undefined,
): Promise<{ readonly rows: readonly UserAtLimit[]; readonly nextCursor: string | null }> {
  const environmentId = ctx.environment.id;
  const scope = ["reached limits", environmentId];
  const text = cursor === undefined ? " 0 0" : decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  const [limitId = "", accountId = "0", memberNumber = "0"] = text.split(" ");
  const position = { limitId, accountId: Number(accountId), memberNumber: Number(memberNumber) };
  const found = await all(ctx.db, selectCounters({ environmentId, ...position, limit: EXAMINED_COUNTERS_MAX + 1 }));
  const { page, last } = cutPage(found, EXAMINED_COUNTERS_MAX);
  const nowMs = ctx.now();
  return {
    rows: page.flatMap(({ userId, isErased, isDeleted, ...row }) => {
      const status = presentUserLimit(limitOf(row), counterOf(row), nowMs);
      return isErased === 0 && !isDeleted && status.remaining === 0
        ? [{ ...status, userId, memberId: row.memberId }]
        : [];
    }),
    nextCursor:
      last === undefined ? null : encodeTextCursor(`${last.id} ${last.accountId} ${last.memberNumber}`, scope),
  };
}
