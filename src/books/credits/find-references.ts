import { and, eq, gte, lt, sql } from "drizzle-orm";
import { drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, creditBalances } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { rangeOf } from "./find-users.ts";
import { type ShownBalance, showBalance, shownBalanceFields } from "./read-balance.ts";

/** How many references one search looks at. The index has those of all environments of the database. */
const searchedReferencesMax = 500;

type Search = { environmentId: number; from: string; to: string; limit: number };
const selectReferences = query((value: ValueOf<Search>) => {
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

/** Balances of any user that were granted under a reference, or one that begins so: that reference itself first. */
export async function findReferences(
  ctx: TenantCtx,
  beginning: string,
  limit: number,
): Promise<readonly (ShownBalance & { readonly userId: string })[]> {
  const values = { environmentId: ctx.environment.id, ...rangeOf(beginning), limit };
  const nowMs = ctx.now();
  const rows = await all(ctx.db, selectReferences(values));
  return rows.map(({ userId, ...row }) => ({ ...showBalance(row, nowMs), userId }));
}
