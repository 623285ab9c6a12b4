import { sql } from "drizzle-orm";
import { computed, fields, read, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger, type Steps } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { invalid, invalidCursor } from "../../errors.ts";
import { decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery } from "../ledger/account.ts";
import { PRESENTED_FIELDS, presentBalance } from "../ledger/balance.ts";
import { firstSeqFrom } from "./search-ledger.ts";

/** How many entries one page goes back over, of all its balances together. */
export const asOfEntriesMax = 20_000;

type Page = { asOfMs: number; beforeSeq: number; limit: number };

/** Balances as they were: each goes back along its own entries, as in C23, but no further than so many entries. */
const selectPage = accountQuery((value: ValueOf<Page>, account) => {
  const { accountId, grantSeq } = creditBalances;
  const { seq, previousSeq, balanceAfterSteps, isRevoked, occurredAtMs } = creditLedger;
  const { remainingSteps: _, revokedAtMs: __, ...neverChanged } = fields(creditBalances, ...PRESENTED_FIELDS);
  const asOfMs = value("asOfMs");
  return read(
    {
      ...neverChanged,
      ...fields(creditBalances, "grantSeq"),
      ...computed({
        isFound: sql`found.issue IS NOT NULL`.mapWith(Boolean),
        remainingSteps: sql<Steps>`coalesce(found.steps, 0)`,
        revokedAtMs: sql<number | null>`iif(found.revoked, found.moment, NULL)`,
      }),
    },
    (list) => sql`WITH RECURSIVE page AS (
      SELECT * FROM ${creditBalances} WHERE ${accountId} = ${account} AND ${grantSeq} < ${value("beforeSeq")}
      ORDER BY ${grantSeq} DESC LIMIT ${value("limit")}
    ), step (issue, previous, steps, revoked, moment) AS (
      SELECT ${grantSeq}, ${previousSeq}, ${balanceAfterSteps}, ${isRevoked}, ${occurredAtMs}
      FROM page AS ${creditBalances} CROSS JOIN ${creditLedger}
        ON ${creditLedger.accountId} = ${accountId} AND ${seq} = ${creditBalances.lastSeq}
      UNION ALL
      SELECT step.issue, ${previousSeq}, ${balanceAfterSteps}, ${isRevoked}, ${occurredAtMs}
      FROM step CROSS JOIN ${creditLedger}
      WHERE step.moment > ${asOfMs} AND ${creditLedger.accountId} = ${account} AND ${seq} = step.previous
      LIMIT ${asOfEntriesMax}
    ), found AS MATERIALIZED (SELECT * FROM step WHERE moment <= ${asOfMs})
    SELECT ${list} FROM page AS ${creditBalances} LEFT JOIN found ON found.issue = ${grantSeq}
    ORDER BY ${grantSeq} DESC`,
  );
});

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
  const rows = await all(ctx.db, selectPage(ctx, { userId }, { asOfMs, beforeSeq, limit: limit + 1 }));
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return {
    balances: shown.map((row) => ({ balanceId: row.id, past: row.isFound ? presentBalance(row, asOfMs) : null })),
    nextCursor: rows.length > limit && last !== undefined ? encodeCursor(last.grantSeq, scope) : null,
  };
}
