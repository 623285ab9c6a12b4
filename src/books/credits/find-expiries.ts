import { all, select, statement } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { EntryFilters } from "./find-entries.ts";
import { type ShownBalance, type ShownRow, showBalance, shownColumns } from "./read-balance.ts";

/** How many balances one page looks at. */
export const lookedAtExpiriesMax = 500;

interface Values extends Record<string, number> {
  readonly environmentId: number;
  readonly expiresAtMs: number;
  readonly accountId: number;
  readonly grantSeq: number;
  readonly toMs: number;
}

const selectExpiries = statement<Values, ShownRow & { userId: string; accountId: number }>`
  SELECT a.user_id AS userId, a.id AS accountId, ${select(shownColumns, "b")}
  FROM (
    SELECT * FROM balance_expiries
    WHERE environment_id = :environmentId AND expires_at_ms < :toMs
      AND (expires_at_ms, account_id, grant_seq) > (:expiresAtMs, :accountId, :grantSeq)
    ORDER BY expires_at_ms, account_id, grant_seq LIMIT ${`${lookedAtExpiriesMax + 1}`}
  ) AS e
  CROSS JOIN credit_balances AS b ON b.account_id = e.account_id AND b.grant_seq = e.grant_seq
  CROSS JOIN accounts AS a ON a.id = e.account_id
  ORDER BY e.expires_at_ms, e.account_id, e.grant_seq`;

/**
 * Balances of all users that expire in a time, the first to expire first, through the index of expiries (H6). A page looks at
 * `lookedAtExpiriesMax`, so it may have few, or none, while others follow. `isSpent`: whether those of which nothing remains are
 * listed too. Throws `invalid_request` for a cursor of another list.
 */
export async function findExpiries(
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
