import { sql } from "drizzle-orm";
import { asInteger, boundLimit, computed, query, read, type ValueOf } from "../../db/query.ts";
import { accounts, members, usageEvents } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { limitsOfReader, selectUserLimits, type UserLimitOutput } from "../limits/read-user-limits.ts";

/** A payer of whom somebody is a member. */
export interface MemberPayer {
  readonly payerId: string;
  /** How many events the member used since a time, at most `COUNTED_EVENTS_MAX`. */
  readonly events: number;
  readonly lastUsedAt: string | null;
  /** The limits per member. */
  readonly limits: readonly UserLimitOutput[];
}

export const COUNTED_EVENTS_MAX = 1_000;
export const MEMBERSHIPS_MAX = 20;

type MembershipValues = { environmentId: number; memberId: string; sinceMs: number; limit: number };

/** Selects the payers of a member, in the order of their ids. Neither an erased payer nor an erased member has a name. */
const selectMemberships = query((value: ValueOf<MembershipValues>) => {
  const { accountId, memberNumber, occurredAtMs } = usageEvents;
  const ofMember = sql`FROM ${usageEvents} INDEXED BY usage_events_member
    WHERE ${accountId} = ${members.accountId} AND ${memberNumber} = ${members.memberNumber}`;
  return read(
    computed({
      payerId: sql<string>`${accounts.userId}`,
      events: sql<number>`(SELECT count(*) FROM (
        SELECT 1 ${ofMember} AND ${occurredAtMs} >= ${asInteger(value("sinceMs"))} LIMIT ${asInteger(sql`${COUNTED_EVENTS_MAX}`)}
      ))`,
      lastMs: sql<number | null>`(SELECT max(${occurredAtMs}) ${ofMember})`,
    }),
    (list) => sql`
      SELECT ${list} FROM ${members} INDEXED BY members_member_id CROSS JOIN ${accounts} ON ${accounts.id} = ${members.accountId}
      WHERE ${members.environmentId} = ${value("environmentId")} AND ${members.memberId} = ${value("memberId")}
        AND ${members.isErased} = 0 AND ${accounts.isErased} = 0
      ORDER BY ${accounts.userId} LIMIT ${boundLimit(value("limit"))}`,
  );
});

/** Returns the payers of whom an id is a member, one more than `MEMBERSHIPS_MAX` at most, for the dashboard. */
export async function listMemberships(ctx: TenantCtx, memberId: string, sinceMs: number): Promise<MemberPayer[]> {
  const { environment, db } = ctx;
  const key = { environmentId: environment.id, memberId, sinceMs, limit: MEMBERSHIPS_MAX + 1 };
  const rows = await all(db, selectMemberships(key));
  if (rows.length === 0) return [];
  const limits = await batch(
    db,
    rows.map(({ payerId }) => selectUserLimits(ctx, payerId, [memberId])),
  );
  return rows.map(({ payerId, events, lastMs }, index) => ({
    ...{ payerId, events, lastUsedAt: lastMs === null ? null : iso(lastMs) },
    limits: limitsOfReader(limits[index] ?? [], { memberId, isPayer: false }, ctx.now()),
  }));
}
