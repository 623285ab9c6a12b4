import { sql } from "drizzle-orm";
import { computed, query, read, type ValueOf } from "../db/query.ts";
import { payments } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";

/** More are not counted. */
export const countedUnmatchedMax = 100;

const selectUnmatched = query((value: ValueOf<{ environmentId: number }>) =>
  read(
    computed({ count: sql<number>`count(*)`, oldestAtMs: sql<number | null>`min(${payments.createdAtMs})` }),
    (list) => sql`SELECT ${list} FROM (
      SELECT * FROM ${payments}
      WHERE ${payments.environmentId} = ${value("environmentId")} AND ${payments.status} = 'unmatched'
      ORDER BY ${payments.createdAtMs}, ${payments.id} LIMIT ${countedUnmatchedMax + 1}
    ) AS ${payments}`,
  ),
);

/** How many payments could not be matched to a user and a pack, and since when the oldest waits. */
export async function countUnmatched(ctx: TenantCtx): Promise<{ count: number; oldestAt: string | null }> {
  const [row] = await all(ctx.db, selectUnmatched({ environmentId: ctx.environment.id }));
  const oldestAtMs = row?.oldestAtMs ?? null;
  return { count: row?.count ?? 0, oldestAt: oldestAtMs === null ? null : iso(oldestAtMs) };
}
