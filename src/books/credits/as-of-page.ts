import { batch, select, statement, type Values } from "../../db/sql.ts";
import { invalid, invalidCursor } from "../../errors.ts";
import { decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { aboutAccount } from "../ledger/account.ts";
import { type PresentedRow, presentBalance, presentedColumns } from "../ledger/balance.ts";
import { firstSeqFrom } from "./search-ledger.ts";

/** How many entries one page goes back over, of all its balances together. */
export const asOfEntriesMax = 20_000;

const { remainingSteps: _, revokedAtMs: __, ...neverChanged } = presentedColumns;

type AsOfRow = PresentedRow & { readonly grantSeq: number; readonly isFound: 0 | 1 };

/** Balances as they were: each goes back along its own entries, as in C23, but no further than so many entries. */
const selectPage = aboutAccount<Values & { asOfMs: number; beforeSeq: number; limit: number }, AsOfRow>(
  (account) => statement`
    WITH RECURSIVE page AS (
      SELECT * FROM credit_balances WHERE account_id = ${account} AND grant_seq < :beforeSeq
      ORDER BY grant_seq DESC LIMIT :limit
    ), entry (grant_seq, previous_seq, after_steps, is_revoked, at_ms) AS (
      SELECT b.grant_seq, l.previous_seq, l.balance_after_steps, l.is_revoked, l.occurred_at_ms
      FROM page AS b CROSS JOIN credit_ledger AS l ON l.account_id = b.account_id AND l.seq = b.last_seq
      UNION ALL
      SELECT entry.grant_seq, older.previous_seq, older.balance_after_steps, older.is_revoked, older.occurred_at_ms
      FROM entry CROSS JOIN credit_ledger AS older
      WHERE entry.at_ms > :asOfMs AND older.account_id = ${account} AND older.seq = entry.previous_seq
      LIMIT ${`${asOfEntriesMax}`}
    ), found AS MATERIALIZED (SELECT * FROM entry WHERE at_ms <= :asOfMs)
    SELECT ${select(neverChanged, "b")}, b.grant_seq AS grantSeq, found.grant_seq IS NOT NULL AS isFound,
      coalesce(found.after_steps, 0) AS remainingSteps, iif(found.is_revoked, found.at_ms, NULL) AS revokedAtMs
    FROM page AS b LEFT JOIN found ON found.grant_seq = b.grant_seq ORDER BY b.grant_seq DESC`,
);

/**
 * A page of what a user had at a moment, the newest balances first. A balance of which too much was written since is null there.
 * Throws `invalid_request` for a moment in the future, and for another list's cursor.
 */
export async function balancesAsOf(
  ctx: TenantCtx,
  userId: string,
  asOfMs: number,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
) {
  if (asOfMs > ctx.now()) throw invalid("asOf", "must not be in the future");
  const scope = ["as of", ctx.environment.id, userId, asOfMs];
  const beforeSeq = cursor === undefined ? await firstSeqFrom(ctx, userId, asOfMs + 1) : decodeCursor(cursor, scope);
  if (beforeSeq === null) throw invalidCursor();
  const [rows] = await batch(ctx.db, [selectPage(ctx, { userId }, { asOfMs, beforeSeq, limit: limit + 1 })]);
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return {
    balances: shown.map((row) => ({ balanceId: row.id, past: row.isFound === 1 ? presentBalance(row, asOfMs) : null })),
    nextCursor: rows.length > limit && last !== undefined ? encodeCursor(last.grantSeq, scope) : null,
  };
}
