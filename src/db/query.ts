/**
 * Drizzle builds every statement; `batch` in sql.ts sends them through D1's own batch. `sql.raw` and `sql.identifier` may be used
 * in this file only.
 */

import {
  Column,
  exists,
  fillPlaceholders,
  type GetColumnData,
  getTableColumns,
  is,
  Param,
  Placeholder,
  SQL,
  sql,
} from "drizzle-orm";
import { type SQLiteColumn, SQLiteSelectBase, type SQLiteTable } from "drizzle-orm/sqlite-core";
import { drizzle as drizzleWith } from "drizzle-orm/sqlite-proxy";
import type { Statement, Value } from "./sql.ts";

/** Drizzle's builder. It only builds: a statement that is awaited instead of sent by `batch` throws. */
export const drizzle = drizzleWith(() => {
  throw new Error("Statements are sent by `batch`.");
});

/** A named value of a statement. Pass the column when its values are stored as another type, such as booleans and JSON. */
export interface ValueOf<Values> {
  (name: keyof Values & string): Placeholder;
  (name: keyof Values & string, column: SQLiteColumn): SQL;
}

function named(name: string): Placeholder;
function named(name: string, column: SQLiteColumn): SQL;
function named(name: string, column?: SQLiteColumn): Placeholder | SQL {
  const placeholder = sql.placeholder(name);
  return column === undefined ? placeholder : sql`${sql.param(placeholder, column)}`;
}

type Selected = Readonly<Record<string, SQL.Aliased>>;
/** The row type of some selected fields. */
export type RowOf<Fields> = {
  -readonly [Name in keyof Fields]: Fields[Name] extends { _: { type: infer Data } } ? Data : never;
};

/** A statement in `sql` that returns rows. */
class Rows<Row> {
  /** Never set. It gives TypeScript the type of the rows. */
  declare readonly row: Row;
  readonly text: SQL;
  readonly isRead: boolean;
  /** Null: the rows stay lists of values, as D1 gives them. */
  readonly fields: Selected | null;

  constructor(text: SQL, isRead: boolean, fields: Selected | null) {
    this.text = text;
    this.isRead = isRead;
    this.fields = fields;
  }
}

interface Builder {
  readonly getSQL: () => SQL;
  readonly prepare: () => { mapAllResult: (rows: unknown) => unknown };
}
interface WrittenColumns {
  readonly sql: string;
  readonly params: readonly unknown[];
}
/** The inputs from which `query` makes a statement. */
export type Writable = Builder | Rows<unknown> | SQL;
/** The row type of such a statement. */
export type RowOfBuilt<Built> =
  Built extends Rows<infer Row> ? Row : Awaited<Built> extends readonly (infer Row)[] ? Row : never;

const PARAMS_MAX = 100;

/**
 * A statement from `drizzle`, `read`, `readArrays`, `returning` or `sql`. It is built on first use. Throws when it has more values
 * than D1 takes, when two of its columns share a name, and when one of its values is missing.
 */
export function query<Values, Built extends Writable>(
  build: (value: ValueOf<Values>) => Built,
): (values: Values) => Statement<RowOfBuilt<Built>> {
  let prepared: ReturnType<typeof prepare> | undefined;
  return (values) => {
    prepared ??= prepare(build(named));
    const { text, fill, rest } = prepared;
    return { text, params: fill(values as Readonly<Record<string, unknown>>), ...rest };
  };
}

function prepare(built: Writable) {
  const { written, isRead, map } = write(built);
  const { sql: text, params } = written;
  if (params.length > PARAMS_MAX) throw new TypeError(`A statement has ${params.length} values: ${text}`);
  const encoded = params.map(withNulls);
  const names = encoded.flatMap((param) => {
    const inner = is(param, Param) ? param.value : param;
    return is(inner, Placeholder) ? [inner.name] : [];
  });
  const fill = (values: Readonly<Record<string, unknown>>): Value[] => {
    for (const name of names) {
      if (values[name] === undefined) throw new TypeError(`A statement was sent without its ${name}.`);
    }
    return fillPlaceholders(encoded, values).map(storable);
  };
  return { text, fill, rest: { isRead, ...(map === undefined ? {} : { map }) } };
}

/** Drizzle encodes a placeholder's null by its column: JSON as the text `null`, a boolean as 0. This keeps it null. */
function withNulls(param: unknown): unknown {
  if (!is(param, Param) || !is(param.value, Placeholder)) return param;
  const { encoder, value } = param;
  return new Param(value, { mapToDriverValue: (data) => (data === null ? null : encoder.mapToDriverValue(data)) });
}

function storable(value: unknown): Value {
  if (value === null || typeof value === "string" || typeof value === "number") return value;
  throw new TypeError(`A statement was sent with a value of type ${typeof value}: give \`value\` its column.`);
}

type Mapper = NonNullable<Statement["map"]>;

function write(built: Writable): { written: WrittenColumns; isRead: boolean; map?: Mapper | undefined } {
  if (is(built, SQL)) return { written: textOf(built), isRead: false };
  if (built instanceof Rows) {
    const { text, isRead, fields } = built;
    const written = textOf(text);
    if (isRead && WRITES.test(written.sql.replace(QUOTED, ""))) throw new TypeError(`Not a read: ${written.sql}`);
    return { written, isRead, map: fields === null ? undefined : mapperOf(fields) };
  }
  const prepared = built.prepare();
  const written = textOf(built.getSQL());
  if (!is(built, SQLiteSelectBase)) {
    // The statement was prepared with these fields, so its rows have their types.
    const map: Mapper = (rows) => prepared.mapAllResult(rows.map((row) => Object.values(row))) as object[];
    return { written, isRead: false, map };
  }
  return { written, isRead: true, map: mapperOf(requireFields(built._.selectedFields)) };
}

/**
 * Constants stand in the text. A bound constant hides a partial index from SQLite, and a bound LIMIT makes it prepare the
 * statement again at every run.
 */
const textOf = (built: SQL): WrittenColumns => drizzle.run(sql`${built}`.inlineParams()).getQuery();

const QUOTED = /'[^']*'|"[^"]*"/g;
const WRITES = /\b(insert|update|delete|replace into)\b/i;

/** Decodes the fields that are not stored as they are. Drizzle's decoding of all fields takes most of the time of a long page. */
function mapperOf(selected: Selected): Mapper | undefined {
  const names = decodedNames(selected);
  if (names.length === 0) return undefined;
  const decoding = drizzle.select(pick(selected, names)).from(sql`_`).prepare();
  return (rows) => {
    const values = rows.map((row) => names.map((name) => row[name]));
    // One object for each row, in order.
    const decoded = decoding.mapAllResult(values) as object[];
    return rows.map((row, index) => Object.assign(row, decoded[index]));
  };
}

type Row = Readonly<Record<string, unknown>>;
const pick = (selected: Selected, names: readonly string[]): Selected =>
  Object.fromEntries(Object.entries(selected).filter(([name]) => names.includes(name)));

/** The fields of which Drizzle makes something else than the stored text "7": booleans, JSON and fields with `mapWith`. */
function decodedNames(selected: Selected): string[] {
  const names = Object.keys(selected);
  try {
    const [row] = drizzle
      .select(selected)
      .from(sql`_`)
      .prepare()
      .mapAllResult([names.map(() => "7")]) as Row[];
    return names.filter((name) => row?.[name] !== "7");
  } catch {
    return names;
  }
}

/** Throws unless every selected field comes from `fields` or `computed`, which give it a unique name and qualified columns. */
function requireFields(selected: unknown): Selected {
  const checked: Record<string, SQL.Aliased> = {};
  for (const [name, field] of Object.entries(selected as Readonly<Record<string, unknown>>)) {
    if (!is(field, SQL.Aliased)) throw new TypeError("Select `fields(…)` and `computed(…)`.");
    const tables = new Set(field.sql.queryChunks.flatMap((chunk) => (is(chunk, Column) ? [chunk.table] : [])));
    if (tables.size > 1) throw new TypeError(`${field.fieldAlias} names columns of two tables: use \`computed\`.`);
    if (field.fieldAlias !== name) throw new TypeError(`The column of ${name} is called ${field.fieldAlias}.`);
    checked[name] = field;
  }
  return checked;
}

type Columns<Table extends SQLiteTable> = Table["_"]["columns"];
/** A table, an alias of it, or a CTE with the same columns. */
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
export function fields(table: SQLiteTable, ...named: readonly (string | Readonly<Record<string, string>>)[]): Selected {
  const columns: Readonly<Record<string, SQLiteColumn>> = getTableColumns(table);
  const names = named.length === 0 ? Object.keys(columns) : named;
  const pairs = names.flatMap((name) => (typeof name === "string" ? [[name, name] as const] : Object.entries(name)));
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
  return Object.fromEntries(Object.entries(expressions).map(([name, one]) => [name, nest(one).as(name)]));
}

/**
 * When a query has one table, Drizzle prints the columns of a selected `sql` without their table (its issue 5734). In a subselect
 * they would then refer to the inner table. One level deeper, Drizzle keeps the table.
 */
function nest<Data>(expression: SQL<Data>): SQL<Data> {
  const chunks = expression.queryChunks.splice(0);
  expression.queryChunks.push(new SQL(chunks));
  return expression;
}

/** Fields of a left-joined table: each may be null. */
export function optional<const Fields extends Selected>(
  selected: Fields,
): { -readonly [Name in keyof Fields]: SQL.Aliased<Fields[Name]["_"]["type"] | null> } {
  return selected;
}

/** Whether a table has a row. */
export function hasRow(table: SQLiteTable, where: SQL | undefined): SQL {
  return exists(drizzle.select({ one: sql`1` }).from(table).where(where));
}

/** A value as an integer. D1 binds numbers as REAL, which would be visible in JSON, texts, results and triggers of views. */
export const asInteger = (value: Placeholder | SQL) => sql<number>`CAST(${value} AS INTEGER)`;

/** A value for `limit`, as an integer: SQLite prepares a statement with a bare value there again at every run. */
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
  return new Rows<RowOf<Fields>>(write(listOf(Object.values(fields))), true, fields);
}

/** A SELECT whose rows stay lists of stored values. Use it with `arrays` for pages of thousands of rows. */
export function readArrays<const List extends readonly SQL[]>(list: List, write: (list: SQL) => SQL) {
  type Row = { -readonly [Index in keyof List]: List[Index]["_"]["type"] };
  // Names must be unique and not numeric: D1 merges columns with equal names, and moves numeric names to the front.
  const named = list.map((one, index) => sql`${one} AS ${sql.identifier(`column${index}`)}`);
  return new Rows<Row>(write(sql.join(named, sql`, `)), true, null);
}

/** An INSERT, UPDATE or DELETE in `sql` that returns rows. `list` is the list of its RETURNING. */
export function returning<const Fields extends Selected>(fields: Fields, write: (list: SQL) => SQL) {
  return new Rows<RowOf<Fields>>(write(listOf(Object.values(fields))), false, fields);
}

function listOf(selected: readonly SQL.Aliased[]): SQL {
  return sql.join(
    selected.map(({ sql: one, fieldAlias }) => sql`${one} AS ${sql.identifier(fieldAlias)}`),
    sql`, `,
  );
}

/** INSERT … SELECT: an expression for each column by its field name, and the rest of the SELECT. Other columns get their defaults. */
export function insertFrom<Table extends SQLiteTable>(
  table: Table,
  values: { readonly [Name in keyof Table["$inferInsert"]]: SQL | Placeholder | SQLiteColumn },
  from: SQL,
): SQL {
  const given = Object.entries<unknown>(values);
  const columns: Readonly<Record<string, SQLiteColumn>> = getTableColumns(table);
  const into = names(...given.map(([name]) => columns[name]));
  return sql`INSERT INTO ${table} (${into}) SELECT ${sql.join(
    given.map(([, value]) => sql`${value}`),
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
