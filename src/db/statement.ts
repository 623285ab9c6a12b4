import type { SQL } from "drizzle-orm";
import type { BatchItem } from "drizzle-orm/batch";
import type { SQLiteRaw } from "drizzle-orm/sqlite-core/query-builders/raw";
import type { Db } from "./client.ts";

/**
 * A statement of plain SQL that answers rows, fit for `db.batch`. Drizzle 0.45's own `db.all(sql…)` has no prepared
 * statement for the batch to bind parameters to; it is given one here. Alias every column to the field of `Row`.
 */
export function rows<Row>(db: Db, query: SQL) {
  return writtenOnce(db, db.all<Row>(query));
}

/** A statement of plain SQL that writes, fit for `db.batch`. */
export function write(db: Db, query: SQL) {
  return writtenOnce(db, db.run(query));
}

/** Drizzle would write the query out again for each time that it is asked for. */
function writtenOnce<Raw extends SQLiteRaw<unknown>>(db: Db, raw: Raw) {
  const written = raw.getQuery();
  return Object.assign(raw, { stmt: db.$client.prepare(written.sql), getQuery: () => written });
}

/** A statement that a batch takes. */
export type Statement = BatchItem<"sqlite">;

/** Sends statements as one batch, and answers the rows of `answering`, which stands among them. */
export async function batchAround<Row>(
  db: Db,
  before: readonly Statement[],
  answering: Statement & PromiseLike<Row[]>,
  after: readonly Statement[],
): Promise<Row[]> {
  const [first, ...rest] = [...before, answering, ...after];
  const results: unknown[] = await db.batch([first ?? answering, ...rest]);
  // A batch answers in the order of its statements; the types of a list of unknown length do not tell.
  return results[before.length] as Row[];
}

/** Sends statements as one batch, for what they do. */
export async function batchAll(db: Db, statements: readonly Statement[]): Promise<void> {
  const [first, ...rest] = statements;
  if (first !== undefined) await db.batch([first, ...rest]);
}
