import { and, desc, eq, gt, gte, isNotNull, lt, sql } from "drizzle-orm";
import { boundLimit, computed, drizzle, fields, query, type RowOf, type ValueOf } from "../db/query.ts";
import { distinctIds } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { cutPage, decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";

const { environmentId, distinctId, lastActiveDay } = distinctIds;
const idFields = () => ({
  ...fields(distinctIds, "distinctId", "firstSeenAtMs", "lastSeenAtMs", "isIdentified", "claimedBy"),
  ...computed({
    eventCount: sql<number>`${distinctIds.eventCount} - ${distinctIds.deletedCount} - ${distinctIds.replacedCount}`,
  }),
});
type IdRow = RowOf<ReturnType<typeof idFields>>;

type IdRange = { environmentId: number; after: string; from: string; to: string; limit: number };
const selectPersonIds = query((value: ValueOf<IdRange>) =>
  drizzle
    .select(idFields())
    .from(distinctIds)
    .where(
      and(
        eq(environmentId, value("environmentId")),
        gt(distinctId, value("after")),
        gte(distinctId, value("from")),
        lt(distinctId, value("to")),
      ),
    )
    .orderBy(distinctId)
    .limit(boundLimit(value("limit"))),
);

/** Returns the distinct ids that begin with a text, in their order. Throws `invalid_request` for another list's cursor. */
export async function findPeople(
  ctx: TenantCtx,
  { beginning, limit, cursor }: { beginning: string; limit: number; cursor?: string | undefined },
) {
  const { environment } = ctx;
  const scope = ["found people", environment.id, beginning];
  const after = cursor === undefined ? "" : decodeTextCursor(cursor, scope);
  if (after === null) throw invalidCursor();
  const range = { from: beginning, to: `${beginning}\u{10ffff}` };
  const rows = await all(ctx.db, selectPersonIds({ environmentId: environment.id, after, ...range, limit: limit + 1 }));
  const { page, last } = cutPage(rows, limit);
  return {
    people: page.map(presentId),
    nextCursor: last === undefined ? null : encodeTextCursor(last.distinctId, scope),
  };
}

const presentId = ({ firstSeenAtMs, lastSeenAtMs, ...row }: IdRow) => ({
  ...row,
  firstSeenAt: iso(firstSeenAtMs),
  lastSeenAt: iso(lastSeenAtMs),
});

type PeoplePosition = { environmentId: number; beforeDay: number; beforeId: string; limit: number };
const selectRecent = query((value: ValueOf<PeoplePosition>) =>
  drizzle
    .select({ ...idFields(), ...computed({ lastActiveDay: sql<number>`${lastActiveDay}` }) })
    .from(sql`${distinctIds} INDEXED BY distinct_ids_active`)
    .where(
      and(
        eq(environmentId, value("environmentId")),
        isNotNull(lastActiveDay),
        sql`(${lastActiveDay}, ${distinctId}) < (${value("beforeDay")}, ${value("beforeId")})`,
      ),
    )
    .orderBy(desc(lastActiveDay), desc(distinctId))
    .limit(boundLimit(value("limit"))),
);

/**
 * Returns people's ids by the day of their last event, the latest first. The days may be outdated (db/count-activity.ts). Throws
 * `invalid_request` for another list's cursor.
 */
export async function recentPeople(ctx: TenantCtx, { limit, cursor }: { limit: number; cursor?: string | undefined }) {
  const { environment } = ctx;
  const scope = ["recent people", environment.id];
  const text = cursor === undefined ? `${Number.MAX_SAFE_INTEGER} ` : decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  const end = text.indexOf(" ");
  const before = { beforeDay: Number(text.slice(0, end)), beforeId: text.slice(end + 1) };
  const rows = await all(ctx.db, selectRecent({ environmentId: environment.id, ...before, limit: limit + 1 }));
  const { page, last } = cutPage(rows, limit);
  return {
    people: page.map(({ lastActiveDay: _, ...row }) => presentId(row)),
    nextCursor: last === undefined ? null : encodeTextCursor(`${last.lastActiveDay} ${last.distinctId}`, scope),
  };
}
