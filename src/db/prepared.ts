import { type Placeholder, type SQL, sql } from "drizzle-orm";
import type { RunnableQuery } from "drizzle-orm/runnable-query";
import { QueryBuilder, type SQLiteColumn, SQLiteSyncDialect, type SQLiteTable } from "drizzle-orm/sqlite-core";
import type { Db } from "./client.ts";

/** A statement that answers rows: to be awaited, or for `db.batch`. */
export type Selected<Row> = RunnableQuery<Row[], "sqlite"> & PromiseLike<Row[]>;

/** What a statement's placeholders stand for. D1 binds a number as REAL: cast it before it meets JSON or text. */
export type Values = Readonly<Record<string, string | number | null>>;

/** A statement that was written once, to be sent with values. */
export type Prepared<Row> = (db: Db, values: Values) => Selected<Row>;

interface Written {
  readonly text: string;
  /** For each `?` the placeholder that it stands for, or what it always is. */
  readonly params: readonly (Placeholder | string | number | null)[];
}

const dialect = new SQLiteSyncDialect();

function written(query: SQL): Written {
  const { sql: text, params } = dialect.sqlToQuery(query);
  // Drizzle's own type of a parameter is unknown; those of constants are what D1 takes.
  return { text, params: params as Written["params"] };
}

function filled({ params }: Written, values: Values): (string | number | null)[] {
  return params.map((param) => {
    if (typeof param !== "object" || param === null) return param;
    const value = values[param.name];
    if (value === undefined) throw new TypeError(`A statement was sent without its ${param.name}.`);
    return value;
  });
}

/** Drizzle takes longer to write a statement than SQLite takes to run it, so it is written when it is first sent. */
function sending<Row>(query: () => SQL): Prepared<Row> {
  let once: Written | undefined;
  return (db, values) => {
    once ??= written(query());
    const { text } = once;
    const params = filled(once, values);
    const stmt = db.$client.prepare(text);
    const answered = (result: D1Result<Row>): Row[] => result.results;
    const sent = {
      _prepare: () => ({ stmt, getQuery: () => ({ sql: text, params }), mapResult: answered }),
      // biome-ignore lint/suspicious/noThenProperty: a Drizzle query is awaited or batched, and so is this
      then: (...on: Parameters<Promise<Row[]>["then"]>) =>
        stmt
          .bind(...params)
          .all<Row>()
          .then(answered)
          .then(...on),
    };
    // What Drizzle's D1 batch calls is here; the rest of its types are phantoms.
    return sent as unknown as Selected<Row>;
  };
}

/**
 * A statement of plain SQL with its values in `sql.placeholder`s, written once an isolate. Alias every column that it
 * answers to the field of `Row`.
 */
export function prepared<Row = never>(query: SQL): Prepared<Row> {
  return sending(() => query);
}

type Fields = Readonly<Record<string, SQLiteColumn>>;
type RowOf<F extends Fields> = {
  [K in keyof F]: F[K]["_"]["notNull"] extends true ? F[K]["_"]["data"] : F[K]["_"]["data"] | null;
};

/**
 * A select of some columns of one table, written once an isolate: the rows of each condition, one condition after another.
 * For columns whose values are what SQLite stores.
 */
export function selecting<F extends Fields>(fields: F, table: SQLiteTable, ...wheres: (SQL | undefined)[]) {
  return sending<RowOf<F>>(() => {
    const aliased = Object.entries(fields).map(([field, column]) => [field, sql`${column}`.as(field)]);
    const selection = Object.fromEntries(aliased);
    return sql.join(
      wheres.map((where) => new QueryBuilder().select(selection).from(table).where(where).getSQL()),
      sql` UNION ALL `,
    );
  });
}
