import { type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { names } from "../../db/query.ts";
import { creditLedger } from "../../db/schema.ts";

/** The entries of a walk. */
export const back = alias(creditLedger, "back");

interface Walk {
  /** The columns of `back`. It also has the account, the seq and the previous seq. */
  readonly columns: readonly Exclude<keyof typeof creditLedger.$inferSelect, "accountId" | "seq" | "previousSeq">[];
  /** Columns of other tables in `start`, which each entry repeats. Read them by `carried`. */
  readonly carries?: readonly SQLiteColumn[];
  /** The rest after FROM. It joins `creditLedger`, whose entries are the first. */
  readonly start: SQL;
  /** Whether it goes through all entries of the account. Absent: only through those of the same balance. */
  readonly isOfAccount?: true;
  /** Whether the walk continues from `back` to the entry before it, `creditLedger`. Absent: it does. */
  readonly continues?: SQL;
  readonly limit?: SQL;
}

/** A column that a walk carries. */
export const carried = (column: SQLiteColumn): SQL => sql`${back}.${names(column)}`;

/**
 * Returns the recursive CTE `back`: some entries of the ledger, and the entries before them. It reads no others, because each entry
 * has the seq of its balance's previous one. Nothing else walks the ledger backwards.
 */
export function walkBack({ columns, carries = [], start, limit, isOfAccount, continues = sql`1` }: Walk): SQL {
  const { accountId, seq, previousSeq } = creditLedger;
  const ofEntry = [accountId, seq, previousSeq, ...columns.map((column) => creditLedger[column])];
  return sql`${back} (${names(...ofEntry, ...carries)}) AS (
      SELECT ${sql.join([...ofEntry, ...carries], sql`, `)} FROM ${start}
      UNION ALL
      SELECT ${sql.join([...ofEntry, ...carries.map(carried)], sql`, `)} FROM ${back} CROSS JOIN ${creditLedger}
      WHERE ${accountId} = ${back.accountId} AND ${continues}
        AND ${isOfAccount ? sql`${seq} = ${back.seq} - 1` : sql`${seq} = ${back.previousSeq}`}
      ${limit === undefined ? sql`` : sql`LIMIT ${limit}`}
    )`;
}

/** Returns a condition: `creditLedger` has the last entry of a balance. */
export const isLastOf = (balance: Readonly<Record<"accountId" | "lastSeq", SQLiteColumn>>): SQL =>
  sql`${creditLedger.accountId} = ${balance.accountId} AND ${creditLedger.seq} = ${balance.lastSeq}`;
