import { fillPlaceholders, type SQL } from "drizzle-orm";
import type { RunnableQuery } from "drizzle-orm/runnable-query";
import { QueryBuilder, type SelectedFields, type SQLiteColumn, type SQLiteTable } from "drizzle-orm/sqlite-core";
import type { Db } from "./client.ts";

/** A statement that answers rows: to be awaited, or for `db.batch`. */
export type Selected<Row> = RunnableQuery<Row[], "sqlite"> & PromiseLike<Row[]>;

type Fields = Record<string, SQLiteColumn>;
type RowOf<F extends Fields> = {
  [K in keyof F]: F[K]["_"]["notNull"] extends true ? F[K]["_"]["data"] : F[K]["_"]["data"] | null;
};

/**
 * A select written once for every request, its values in `sql.placeholder`s. Drizzle takes longer to write a query than
 * SQLite takes to run it, so what every debit and every list asks is written when the isolate starts.
 */
export function selecting<F extends Fields>(fields: F, table: SQLiteTable, where: SQL | undefined) {
  // The builder's own types follow fields that are known one by one.
  const query = new QueryBuilder()
    .select(fields as SelectedFields)
    .from(table)
    .where(where)
    .toSQL();
  const columns = Object.entries(fields);
  const read = (result: D1Result<Record<string, unknown>>): RowOf<F>[] =>
    result.results.map((stored) => {
      const row: Record<string, unknown> = {};
      for (const [field, column] of columns) {
        const value = stored[column.name];
        row[field] = value === null ? null : column.mapFromDriverValue(value);
      }
      return row as RowOf<F>;
    });

  return (db: Db, values: Record<string, string | number>): Selected<RowOf<F>> => {
    const params = fillPlaceholders(query.params, values);
    const stmt = db.$client.prepare(query.sql);
    const prepared = { stmt, getQuery: () => ({ sql: query.sql, params }), mapResult: read };
    const selected = {
      _prepare: () => prepared,
      // biome-ignore lint/suspicious/noThenProperty: a Drizzle query is awaited or batched, and so is this
      then: (...on: Parameters<Promise<RowOf<F>[]>["then"]>) =>
        stmt
          .bind(...params)
          .all<Record<string, unknown>>()
          .then(read)
          .then(...on),
    };
    // What Drizzle's D1 batch calls is here; the rest of its types are phantoms.
    return selected as unknown as Selected<RowOf<F>>;
  };
}
