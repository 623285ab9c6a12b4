/**
 * Makes the text, the values and the row decoder of a statement from Drizzle's builders. Drizzle's own `prepare` returns no
 * parts, which D1's batch needs.
 */

import { Column, fillPlaceholders, is, Param, Placeholder, SQL, sql } from "drizzle-orm";
import { SQLiteSelectBase } from "drizzle-orm/sqlite-core";
import type { SqliteRemoteDatabase } from "drizzle-orm/sqlite-proxy";
import { withoutKeys } from "./key-form.ts";
import type { Statement, Value } from "./sql.ts";

/** The fields of a select list, each under the name of its column. */
export type Selected = Readonly<Record<string, SQL.Aliased>>;

/** A statement in `sql` that returns rows. */
export class SqlWithRows<Row> {
  /** Never set. It tells TypeScript the type of the rows. */
  declare readonly row: Row;
  readonly text: SQL;
  readonly isRead: boolean;
  /** Null: the rows stay lists of values, as D1 returns them. */
  readonly fields: Selected | null;

  constructor(text: SQL, isRead: boolean, fields: Selected | null) {
    this.text = text;
    this.isRead = isRead;
    this.fields = fields;
  }
}

/** The parts of Drizzle's builders that are used. */
interface Builder {
  readonly getSQL: () => SQL;
  readonly prepare: () => { mapAllResult: (rows: unknown) => unknown };
}

interface StatementText {
  readonly sql: string;
  readonly params: readonly unknown[];
}

/** The inputs from which `query` makes a statement. */
export type StatementSource = Builder | SqlWithRows<unknown> | SQL;

/** The most values that D1 binds in a statement. */
const PARAMS_MAX = 100;

/**
 * Prepares a statement. `fill` returns its values. It throws when a value is missing, or has a type that D1 does not accept.
 */
export function prepare(drizzle: SqliteRemoteDatabase, source: StatementSource) {
  const { printed, isRead, map } = printStatement(drizzle, source);
  const { sql: text, params } = printed;
  if (params.length > PARAMS_MAX) throw new TypeError(`A statement has ${params.length} values: ${text}`);
  const encoded = params.map(keepNull);
  const names = encoded.flatMap((param) => {
    const inner = is(param, Param) ? param.value : param;
    return is(inner, Placeholder) ? [inner.name] : [];
  });
  const fill = (values: Readonly<Record<string, unknown>>): Value[] => {
    for (const name of names) {
      if (values[name] === undefined) throw new TypeError(`A statement was sent without its ${name}.`);
    }
    return fillPlaceholders(encoded, values).map(toBindable);
  };
  return { text, fill, rest: { isRead, ...(map === undefined ? {} : { map }) } };
}

/**
 * Keeps the null of a placeholder as it is. Drizzle would encode it by its column: for JSON as the text `null`, for a boolean
 * as 0.
 */
function keepNull(param: unknown): unknown {
  if (!is(param, Param) || !is(param.value, Placeholder)) return param;
  const { encoder, value } = param;
  return new Param(value, { mapToDriverValue: (data) => (data === null ? null : encoder.mapToDriverValue(data)) });
}

/** Returns a value to bind. Keys in a text are replaced here, so that no statement can store one (L1). */
function toBindable(value: unknown): Value {
  if (typeof value === "string") return withoutKeys(value);
  if (value === null || typeof value === "number") return value;
  throw new TypeError(`A statement was sent with a value of type ${typeof value}: give \`value\` its column.`);
}

type Mapper = NonNullable<Statement["map"]>;

function printStatement(
  drizzle: SqliteRemoteDatabase,
  source: StatementSource,
): { printed: StatementText; isRead: boolean; map?: Mapper | undefined } {
  if (is(source, SQL)) return { printed: printSql(drizzle, source), isRead: false };
  if (source instanceof SqlWithRows) {
    const { text, isRead, fields } = source;
    const printed = printSql(drizzle, text);
    if (isRead && WRITES.test(printed.sql.replace(QUOTED, ""))) throw new TypeError(`Not a read: ${printed.sql}`);
    return { printed, isRead, map: fields === null ? undefined : createMapper(drizzle, fields) };
  }
  const prepared = source.prepare();
  const printed = printSql(drizzle, source.getSQL());
  if (!is(source, SQLiteSelectBase)) {
    // The statement was prepared with these fields, so its rows have their types.
    const map: Mapper = (rows) => prepared.mapAllResult(rows.map((row) => Object.values(row))) as object[];
    return { printed, isRead: false, map };
  }
  return { printed, isRead: true, map: createMapper(drizzle, requireFields(source._.selectedFields)) };
}

/**
 * Prints a statement with its constants in the text. SQLite does not use a partial index for a bound constant, and prepares a
 * statement with a bound LIMIT again at every run.
 */
const printSql = (drizzle: SqliteRemoteDatabase, source: SQL): StatementText =>
  drizzle.run(sql`${source}`.inlineParams()).getQuery();

const QUOTED = /'[^']*'|"[^"]*"/g;

const WRITES = /\b(insert|update|delete|replace into)\b/i;

/** Decodes only the fields that need it. If Drizzle decoded all fields, this would take most of the time of a long page. */
function createMapper(drizzle: SqliteRemoteDatabase, selected: Selected): Mapper | undefined {
  const names = decodedNames(drizzle, selected);
  if (names.length === 0) return undefined;
  const decoding = drizzle.select(pick(selected, names)).from(sql`_`).prepare();
  return (rows) => {
    const values = rows.map((row) => names.map((name) => row[name]));
    // One object for each row, in order.
    const decoded = decoding.mapAllResult(values) as object[];
    return rows.map((row, index) => Object.assign(row, decoded[index]));
  };
}

type DecodedRow = Readonly<Record<string, unknown>>;

const pick = (selected: Selected, names: readonly string[]): Selected =>
  Object.fromEntries(Object.entries(selected).filter(([name]) => names.includes(name)));

/**
 * Returns the fields that need decoding: booleans, JSON and fields with `mapWith`. For them Drizzle does not return a stored
 * "7" unchanged.
 */
function decodedNames(drizzle: SqliteRemoteDatabase, selected: Selected): string[] {
  const names = Object.keys(selected);
  try {
    const [row] = drizzle
      .select(selected)
      .from(sql`_`)
      .prepare()
      .mapAllResult([names.map(() => "7")]) as DecodedRow[];
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
