/**
 * Drizzle builds every statement, and `batch` in sql.ts sends it through D1's own batch. Only this file may use `sql.raw` and
 * `sql.identifier`.
 */

import { exists, type GetColumnData, getTableColumns, type Placeholder, SQL, sql } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { drizzle as drizzleWith } from "drizzle-orm/sqlite-proxy";
import { prepare, type Selected, SqlWithRows, type StatementSource } from "./prepare.ts";
import type { Statement } from "./sql.ts";

/** Drizzle's builder. It only builds: a statement that is awaited instead of sent by `batch` throws. */
export const drizzle = drizzleWith(() => {
  throw new Error("Statements are sent by `batch`.");
});

/** A named value of a statement. Pass the column when its values are stored as another type, such as booleans and JSON. */
export interface ValueOf<Values> {
  (name: keyof Values & string): Placeholder;
  (name: keyof Values & string, column: SQLiteColumn): SQL;
}

function namedValue(name: string): Placeholder;
function namedValue(name: string, column: SQLiteColumn): SQL;
function namedValue(name: string, column?: SQLiteColumn): Placeholder | SQL {
  const placeholder = sql.placeholder(name);
  return column === undefined ? placeholder : sql`${sql.param(placeholder, column)}`;
}

/** The row type of some selected fields. */
export type RowOf<Fields> = {
  -readonly [Name in keyof Fields]: Fields[Name] extends { _: { type: infer Data } } ? Data : never;
};

/** The row type of the statement that `query` makes from a source. */
export type RowOfBuilt<Source> =
  Source extends SqlWithRows<infer Row> ? Row : Awaited<Source> extends readonly (infer Row)[] ? Row : never;

/**
 * A statement from `drizzle`, `read`, `readArrays`, `returning` or `sql`. It is built on first use. Throws when it has more values
 * than D1 takes, when two of its columns share a name, and when one of its values is missing.
 */
export function query<Values, Source extends StatementSource>(
  build: (value: ValueOf<Values>) => Source,
): (values: Values) => Statement<RowOfBuilt<Source>> {
  let prepared: ReturnType<typeof prepare> | undefined;
  return (values) => {
    prepared ??= prepare(drizzle, build(namedValue));
    const { text, fill, rest } = prepared;
    return { text, params: fill(values as Readonly<Record<string, unknown>>), ...rest };
  };
}

type Columns<Table extends SQLiteTable> = Table["_"]["columns"];
/** The columns of a table, of an alias of it, or of a CTE with the same columns. */
export type ColumnsOf<Table extends SQLiteTable> = { readonly [Name in keyof Columns<Table>]: SQLiteColumn };
type SelectedField<C extends SQLiteColumn> = SQL.Aliased<GetColumnData<C>>;

/** Columns for a select list or `returning`, under the names of their fields: all, some, or some under other names. */
export function fields<Table extends SQLiteTable>(
  table: Table,
): { [Name in keyof Columns<Table>]: SelectedField<Columns<Table>[Name]> };
export function fields<Table extends SQLiteTable, Name extends keyof Columns<Table> & string>(
  table: Table,
  ...names: readonly Name[]
): { [Of in Name]: SelectedField<Columns<Table>[Of]> };
export function fields<
  Table extends SQLiteTable,
  const Names extends Readonly<Record<string, keyof Columns<Table> & string>>,
>(table: Table, names: Names): { -readonly [Name in keyof Names]: SelectedField<Columns<Table>[Names[Name]]> };
export function fields(
  table: SQLiteTable,
  ...selection: readonly (string | Readonly<Record<string, string>>)[]
): Selected {
  const columns: Readonly<Record<string, SQLiteColumn>> = getTableColumns(table);
  const chosen = selection.length === 0 ? Object.keys(columns) : selection;
  const pairs = chosen.flatMap((part) => (typeof part === "string" ? [[part, part] as const] : Object.entries(part)));
  return Object.fromEntries(
    pairs.map(([as, name]) => {
      const column = columns[name];
      if (column === undefined) throw new TypeError(`No column ${name}.`);
      return [as, sql`${sql`${column}`}`.mapWith(column).as(as)];
    }),
  );
}

/** Expressions for a select list or `returning`, under the names of their fields. */
export function computed<const Expressions extends Readonly<Record<string, SQL>>>(
  expressions: Expressions,
): { -readonly [Name in keyof Expressions]: SQL.Aliased<Expressions[Name]["_"]["type"]> };
export function computed(expressions: Readonly<Record<string, SQL>>): Selected {
  return Object.fromEntries(Object.entries(expressions).map(([name, expression]) => [name, nest(expression).as(name)]));
}

/**
 * When a query has one table, Drizzle prints the columns of a selected `sql` without their table (its issue 5734). In a
 * subselect they would then refer to the inner table. One level deeper, Drizzle keeps the table. `queryChunks` is public and
 * changed in place, because a new `SQL` would lose the decoder of `mapWith`, which is not public.
 */
function nest<Data>(expression: SQL<Data>): SQL<Data> {
  const chunks = expression.queryChunks.splice(0);
  expression.queryChunks.push(new SQL(chunks));
  return expression;
}

/** The fields of a left-joined table. Each may be null. */
export function optional<const Fields extends Selected>(
  selected: Fields,
): { -readonly [Name in keyof Fields]: SQL.Aliased<Fields[Name]["_"]["type"] | null> } {
  return selected;
}

/** SQL: whether a table has a row. */
export function hasRow(table: SQLiteTable, where: SQL | undefined): SQL {
  return exists(drizzle.select({ one: sql`1` }).from(table).where(where));
}

/**
 * SQL: a value as an integer. D1 binds numbers as REAL, which would be visible in JSON, texts, results and triggers of views.
 */
export const asInteger = (value: Placeholder | SQL) => sql<number>`CAST(${value} AS INTEGER)`;

/** A value for `limit`, as an integer. With a bare value, SQLite would prepare the statement again at every run. */
export function boundLimit(value: Placeholder): Placeholder {
  // Drizzle prints any SQL here. Its type has only numbers and placeholders.
  return asInteger(value) as unknown as Placeholder;
}

/** The value of a query with one field, for a select list. Null when it finds no row. */
export function scalar<Data>(select: {
  readonly getSQL: () => SQL;
  readonly _: { readonly result: Record<string, Data>[] };
}) {
  return sql<Data | null>`(${select.getSQL()})`;
}

/** A SELECT in `sql`, for SQL that the builder cannot express. `list` is the select list. */
export function read<const Fields extends Selected>(fields: Fields, write: (list: SQL) => SQL) {
  return new SqlWithRows<RowOf<Fields>>(write(listOf(Object.values(fields))), true, fields);
}

/** A SELECT whose rows stay lists of stored values. Use it with `arrays` for pages of thousands of rows. */
export function readArrays<const List extends readonly SQL[]>(list: List, write: (list: SQL) => SQL) {
  type Row = { -readonly [Index in keyof List]: List[Index]["_"]["type"] };
  // Names must be unique and not numeric: D1 merges columns with equal names, and moves numeric names to the front.
  const columns = list.map((expression, index) => sql`${expression} AS ${sql.identifier(`column${index}`)}`);
  return new SqlWithRows<Row>(write(sql.join(columns, sql`, `)), true, null);
}

/** An INSERT, UPDATE or DELETE in `sql` that returns rows. `list` is the list of its RETURNING. */
export function returning<const Fields extends Selected>(fields: Fields, write: (list: SQL) => SQL) {
  return new SqlWithRows<RowOf<Fields>>(write(listOf(Object.values(fields))), false, fields);
}

function listOf(selected: readonly SQL.Aliased[]): SQL {
  return sql.join(
    selected.map(({ sql: expression, fieldAlias }) => sql`${expression} AS ${sql.identifier(fieldAlias)}`),
    sql`, `,
  );
}

/**
 * INSERT … SELECT: an expression for each column by its field name, and the rest of the SELECT. Other columns get their
 * defaults.
 */
export function insertFrom<Table extends SQLiteTable>(
  table: Table,
  values: { readonly [Name in keyof Table["$inferInsert"]]: SQL | Placeholder | SQLiteColumn },
  from: SQL,
): SQL {
  const entries = Object.entries<unknown>(values);
  const columns: Readonly<Record<string, SQLiteColumn>> = getTableColumns(table);
  const into = names(...entries.map(([name]) => columns[name]));
  return sql`INSERT INTO ${table} (${into}) SELECT ${sql.join(
    entries.map(([, value]) => sql`${value}`),
    sql`, `,
  )} ${from}`;
}

/** Bare column names, for ON CONFLICT, UPDATE OF and the columns of an index. */
export function names(...columns: readonly (SQLiteColumn | undefined)[]): SQL {
  return sql.join(
    columns.map((column) => {
      if (column === undefined) throw new TypeError("No such column.");
      return sql.identifier(column.name);
    }),
    sql`, `,
  );
}

/** The assignments after SET in `sql`. */
export function assignments<Table extends SQLiteTable>(
  table: Table,
  values: { readonly [Name in keyof Table["$inferInsert"]]?: SQL | Placeholder | SQLiteColumn },
): SQL {
  const columns: Readonly<Record<string, SQLiteColumn>> = getTableColumns(table);
  return sql.join(
    Object.entries<unknown>(values).map(([name, value]) => sql`${names(columns[name])} = ${value}`),
    sql`, `,
  );
}

/** SQL: the values of columns after a change. `change` is JSON with the columns that change. */
export function changedColumns<Name extends string>(
  change: Placeholder,
  columns: Readonly<Record<Name, SQLiteColumn>>,
): Record<Name, SQL> {
  const changed = Object.entries<SQLiteColumn>(columns).map(([name, column]) => [
    name,
    sql`iif(json_type(${change}, ${`$.${name}`}) IS NULL, ${column}, ${change} ->> ${name})`,
  ]);
  return Object.fromEntries(changed) as Record<Name, SQL>;
}
