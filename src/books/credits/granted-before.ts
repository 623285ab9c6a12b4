import { and, eq, sql } from "drizzle-orm";
import { drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, creditBalances } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";

type GrantOfUsers = { environmentId: number; userIds: string; packId: string; externalRef: string };

const selectGrantedUsers = query((value: ValueOf<GrantOfUsers>) =>
  drizzle
    .selectDistinct(fields(accounts, "userId"))
    .from(accounts)
    .crossJoin(creditBalances)
    .where(
      and(
        eq(accounts.environmentId, value("environmentId")),
        sql`${accounts.userId} IN (SELECT value FROM json_each(${value("userIds")}))`,
        eq(creditBalances.externalRef, value("externalRef")),
        eq(creditBalances.accountId, accounts.id),
        eq(creditBalances.packId, value("packId")),
      ),
    ),
);

/** Returns which of these users a pack was granted to under a reference. A repeat of the grant gives them nothing (C10). */
export async function usersGrantedBefore(
  ctx: TenantCtx,
  { userIds, packId, externalRef }: { userIds: readonly string[]; packId: string; externalRef: string },
): Promise<ReadonlySet<string>> {
  const values = { environmentId: ctx.environment.id, userIds: JSON.stringify(userIds), packId, externalRef };
  const rows = await all(ctx.db, selectGrantedUsers(values));
  return new Set(rows.map(({ userId }) => userId));
}
