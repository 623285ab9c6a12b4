import { type SQL, sql } from "drizzle-orm";
import { computed, read, type ValueOf } from "../../db/query.ts";
import { creditLedger } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery } from "../ledger/account.ts";
import { lastSeqOf } from "../ledger/insert-entries.ts";

/**
 * WITH and the recursive CTE `half`: for each account, `low` is the first seq at a moment or later, or its last seq plus one if there is no
 * such entry, in the row where `low` is `high`. A binary search: seqs have no gaps and times never fall. `selectAccounts` is a SELECT with
 * the column `account`.
 */
export function halve(selectAccounts: SQL, atMs: SQL): SQL {
  const { accountId, seq, occurredAtMs } = creditLedger;
  const isBefore = sql`${occurredAtMs} < ${atMs}`;
  return sql`WITH RECURSIVE half (account, low, high) AS (
      SELECT account, 1, 1 + ${lastSeqOf(sql`account`)} FROM (${selectAccounts})
      UNION ALL
      SELECT account, iif(${isBefore}, ${seq} + 1, low), iif(${isBefore}, high, ${seq})
      FROM half CROSS JOIN ${creditLedger} ON ${accountId} = account AND ${seq} = (low + high) / 2
      WHERE low < high
    )`;
}

/** Returns the query for each account's first seq at a moment or later, as `halve` finds it. */
export function readFirstSeqs(selectAccounts: SQL, value: ValueOf<{ atMs: number }>) {
  return read(
    computed({ accountId: sql<number>`half.account`, seq: sql<number>`half.low` }),
    (list) => sql`${halve(selectAccounts, sql`${value("atMs")}`)}
    SELECT ${list} FROM half WHERE low >= high`,
  );
}

const selectFirstSeq = accountQuery((value: ValueOf<{ atMs: number }>, account) =>
  readFirstSeqs(sql`SELECT ${account} AS account`, value),
);

/**
 * Returns the seq of the user's first entry at a moment or later, or the last seq plus one if there is none. Uses binary search.
 */
export async function firstSeqFrom(ctx: TenantCtx, userId: string, atMs: number): Promise<number> {
  const [found] = await all(ctx.db, selectFirstSeq(ctx, { userId }, { atMs }));
  return found?.seq ?? 1;
}
