import { all, select, statement } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { rangeOf } from "./find-users.ts";
import { type ShownBalance, type ShownRow, showBalance, shownColumns } from "./read-balance.ts";

/** How many references one search looks at. The index has those of all environments of the database. */
const searchedReferencesMax = 500;

const selectReferences = statement<
  { environmentId: number; from: string; to: string; limit: number },
  ShownRow & { userId: string }
>`
  SELECT a.user_id AS userId, ${select(shownColumns, "b")}
  FROM (
    SELECT * FROM credit_balances INDEXED BY credit_balances_external_ref
    WHERE external_ref >= :from AND external_ref < :to ORDER BY external_ref LIMIT ${`${searchedReferencesMax}`}
  ) AS b CROSS JOIN accounts AS a ON a.id = b.account_id AND a.environment_id = :environmentId
  LIMIT :limit`;

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
