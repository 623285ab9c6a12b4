import { sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, computed, fields, read, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger, type Minor } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { invalid, invalidCursor } from "../../errors.ts";
import { cutPage, decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery } from "../ledger/account.ts";
import { PRESENTED_FIELDS, presentBalance } from "../ledger/balance.ts";
import { back, isLastOf, walkBack } from "../ledger/walk-back.ts";
import { firstSeqFrom } from "./first-seq.ts";

/** How many ledger entries one page reads backwards, for all its balances together. */
export const AS_OF_ENTRIES_MAX = 20_000;

type BalancesPage = { asOfMs: number; beforeSeq: number; limit: number };

/** Selects balances as of a moment. It follows each balance's entries backwards (C23), up to `AS_OF_ENTRIES_MAX` entries. */
const selectBalancesPage = accountQuery((value: ValueOf<BalancesPage>, account) => {
  const { accountId, grantSeq } = creditBalances;
  const { remainingMinor: _, revokedAtMs: __, ...neverChanged } = fields(creditBalances, ...PRESENTED_FIELDS);
  const asOfMs = value("asOfMs");
  const walk = walkBack({
    columns: ["grantSeq", "balanceAfterMinor", "isRevoked", "occurredAtMs"],
    start: sql`page AS ${creditBalances} CROSS JOIN ${creditLedger} ON ${isLastOf(creditBalances)}`,
    continues: sql`${back.occurredAtMs} > ${asOfMs}`,
    limit: sql`${AS_OF_ENTRIES_MAX}`,
  });
  const found = alias(creditLedger, "found");
  return read(
    {
      ...neverChanged,
      ...fields(creditBalances, "grantSeq"),
      ...computed({
        isFound: sql`${found.seq} IS NOT NULL`.mapWith(Boolean),
        remainingMinor: sql<Minor>`coalesce(${found.balanceAfterMinor}, 0)`,
        revokedAtMs: sql<number | null>`iif(${found.isRevoked}, ${found.occurredAtMs}, NULL)`,
      }),
    },
    (list) => sql`WITH RECURSIVE page AS (
      SELECT * FROM ${creditBalances} WHERE ${accountId} = ${account} AND ${grantSeq} < ${value("beforeSeq")}
      ORDER BY ${grantSeq} DESC LIMIT ${asInteger(value("limit"))}
    ), ${walk}, ${found} AS MATERIALIZED (SELECT * FROM ${back} WHERE ${back.occurredAtMs} <= ${asOfMs})
    SELECT ${list} FROM page AS ${creditBalances} LEFT JOIN ${found} ON ${found.grantSeq} = ${grantSeq}
    ORDER BY ${grantSeq} DESC`,
  );
});

/**
 * Returns the balances that a user had at a moment, newest first. `past` is null for a balance with too many later entries. Throws
 * `invalid_request` for a moment in the future, and for a cursor of another list.
 */
export async function listBalancesAsOf(
  ctx: TenantCtx,
  userId: string,
  asOfMs: number,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
) {
  if (asOfMs > ctx.now()) throw invalid("asOf", "must not be in the future");
  const scope = ["as of", ctx.environment.id, userId, asOfMs];
  const beforeSeq = cursor === undefined ? await firstSeqFrom(ctx, userId, asOfMs + 1) : decodeCursor(cursor, scope);
  if (beforeSeq === null) throw invalidCursor();
  const rows = await all(ctx.db, selectBalancesPage(ctx, { userId }, { asOfMs, beforeSeq, limit: limit + 1 }));
  const { page, last } = cutPage(rows, limit);
  return {
    balances: page.map((row) => ({ balanceId: row.id, past: row.isFound ? presentBalance(row, asOfMs) : null })),
    nextCursor: last === undefined ? null : encodeCursor(last.grantSeq, scope),
  };
}
