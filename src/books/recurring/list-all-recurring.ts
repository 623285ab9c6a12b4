import { and, eq, gt, sql } from "drizzle-orm";
import { boundLimit, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, recurringGrants } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { cutPage, decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { listSuspended, presentRecurring, type RecurringOutput } from "./recurring.ts";

type RecurringPage = { environmentId: number; after: string; limit: number };

const selectAllRecurring = query((value: ValueOf<RecurringPage>) => {
  const { environmentId, id, accountId } = recurringGrants;
  return drizzle
    .select({ ...fields(accounts, "userId"), ...fields(recurringGrants) })
    .from(sql`${recurringGrants} INDEXED BY recurring_grants_id`)
    .crossJoin(accounts)
    .where(
      and(
        eq(environmentId, value("environmentId")),
        gt(id, value("after")),
        eq(accounts.id, accountId),
        eq(accounts.isErased, 0),
      ),
    )
    .orderBy(id)
    .limit(boundLimit(value("limit")));
});

/** Returns the recurring grants of all users by id, or the suspended ones. Throws `invalid_request` for another list's cursor. */
export async function listAllRecurring(
  ctx: TenantCtx,
  { isSuspended, limit, cursor }: { isSuspended: boolean; limit: number; cursor?: string | undefined },
): Promise<{ readonly rows: readonly RecurringOutput[]; readonly nextCursor: string | null }> {
  const scope = ["recurring grants", ctx.environment.id, isSuspended ? 1 : 0];
  const after = cursor === undefined ? "" : decodeTextCursor(cursor, scope);
  if (after === null) throw invalidCursor();
  const read = async () => {
    if (isSuspended) return listSuspended(ctx, { after, limit: limit + 1 });
    const rows = await all(ctx.db, selectAllRecurring({ environmentId: ctx.environment.id, after, limit: limit + 1 }));
    return rows.map(({ userId, ...row }) => presentRecurring(userId, row, ctx.now()));
  };
  const { page, last } = cutPage(await read(), limit);
  return { rows: page, nextCursor: last === undefined ? null : encodeTextCursor(last.recurringId, scope) };
}
