import { and, eq, gte, lt, sql } from "drizzle-orm";
import { drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, creditBalances } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { rangeOf } from "./find-users.ts";
import { type ShownBalance, showBalance, shownBalanceFields } from "./revoke.ts";

/** How many references one search examines. The index has those of all environments in the database. */
const searchedReferencesMax = 500;

type ReferenceSearch = { environmentId: number; from: string; to: string; limit: number };
const selectMatchingReferences = query((value: ValueOf<ReferenceSearch>) => {
  const { externalRef } = creditBalances;
  const searched = sql`SELECT * FROM ${creditBalances} INDEXED BY credit_balances_external_ref
    WHERE ${and(gte(externalRef, value("from")), lt(externalRef, value("to")))}
    ORDER BY ${externalRef} LIMIT ${searchedReferencesMax}`;
  return drizzle
    .select({ ...fields(accounts, "userId"), ...shownBalanceFields() })
    .from(sql`(${searched}) AS ${creditBalances}`)
    .crossJoin(accounts)
    .where(and(eq(accounts.id, creditBalances.accountId), eq(accounts.environmentId, value("environmentId"))))
    .limit(value("limit"));
});

/**
 * Returns balances of any user that were granted under a reference, or under one with this prefix. The exact reference comes
 * first.
 */
export async function findReferences(
  ctx: TenantCtx,
  beginning: string,
  limit: number,
): Promise<readonly (ShownBalance & { readonly userId: string })[]> {
  const values = { environmentId: ctx.environment.id, ...rangeOf(beginning), limit };
  const nowMs = ctx.now();
  const rows = await all(ctx.db, selectMatchingReferences(values));
  return rows.map(({ userId, ...row }) => ({ ...showBalance(row, nowMs), userId }));
}
