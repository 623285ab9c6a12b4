import { and, eq, sql } from "drizzle-orm";
import { drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, balanceExpiries, creditBalances } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { EntryFilters } from "./find-entries.ts";
import { type ShownBalance, showBalance, shownBalanceFields } from "./revoke.ts";

/** How many balances one page examines. */
export const lookedAtExpiriesMax = 500;

type FoundExpiries = { environmentId: number; expiresAtMs: number; accountId: number; grantSeq: number; toMs: number };
const selectExpiries = query((value: ValueOf<FoundExpiries>) => {
  const { environmentId, expiresAtMs, accountId, grantSeq } = balanceExpiries;
  const page = sql`SELECT * FROM ${balanceExpiries}
    WHERE ${environmentId} = ${value("environmentId")} AND ${expiresAtMs} < ${value("toMs")}
      AND (${expiresAtMs}, ${accountId}, ${grantSeq})
        > (${value("expiresAtMs")}, ${value("accountId")}, ${value("grantSeq")})
    ORDER BY ${expiresAtMs}, ${accountId}, ${grantSeq} LIMIT ${lookedAtExpiriesMax + 1}`;
  return drizzle
    .select({ ...fields(accounts, { userId: "userId", accountId: "id" }), ...shownBalanceFields() })
    .from(sql`(${page}) AS ${balanceExpiries}`)
    .crossJoin(creditBalances)
    .crossJoin(accounts)
    .where(
      and(eq(creditBalances.accountId, accountId), eq(creditBalances.grantSeq, grantSeq), eq(accounts.id, accountId)),
    )
    .orderBy(expiresAtMs, accountId, grantSeq);
});

/**
 * Returns balances of all users that expire in a range of time, the first to expire first, through the index of expiries (H6). A
 * page examines `lookedAtExpiriesMax` balances, so it may be short or empty although others follow. `isSpent` includes balances
 * with nothing left. Throws `invalid_request` for a cursor of another list.
 */
export async function listExpiries(
  ctx: TenantCtx,
  { fromMs, toMs, unit, packId, isSpent }: EntryFilters & { readonly isSpent: boolean },
  cursor: string | undefined,
): Promise<{
  readonly balances: readonly (ShownBalance & { readonly userId: string })[];
  readonly nextCursor: string | null;
}> {
  const environmentId = ctx.environment.id;
  const scope = ["expiries", environmentId, fromMs, toMs, unit ?? "", packId ?? "", isSpent ? 1 : 0];
  const text = cursor === undefined ? `${fromMs - 1} ${Number.MAX_SAFE_INTEGER} 0` : decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  const [expiresAtMs = 0, accountId = 0, grantSeq = 0] = text.split(" ").map(Number);
  const rows = await all(ctx.db, selectExpiries({ environmentId, expiresAtMs, accountId, grantSeq, toMs }));
  const nowMs = ctx.now();
  const lookedAt = rows.slice(0, lookedAtExpiriesMax);
  const last = lookedAt.at(-1);
  const isMore = rows.length > lookedAtExpiriesMax && last !== undefined;
  const wanted = lookedAt.filter(
    (row) =>
      (unit === undefined || row.unit === unit) &&
      (packId === undefined || row.packId === packId) &&
      (isSpent || row.remainingSteps > 0),
  );
  return {
    balances: wanted.map(({ userId, ...row }) => ({ ...showBalance(row, nowMs), userId })),
    nextCursor: isMore ? encodeTextCursor(`${last.expiresAtMs} ${last.accountId} ${last.grantSeq}`, scope) : null,
  };
}
