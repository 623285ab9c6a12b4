/**
 * The text, the values and the row decoder of a statement that Drizzle built. Drizzle's own `prepare` would send it too, and D1's batch
 * needs the parts.
 */

import { Column, fillPlaceholders, is, Param, Placeholder, SQL, sql } from "drizzle-orm";
import { SQLiteSelectBase } from "drizzle-orm/sqlite-core";
import type { SqliteRemoteDatabase } from "drizzle-orm/sqlite-proxy";
import type { Statement, Value } from "./sql.ts";

/** The fields of a select list, each under the name of its column. */
export type Selected = Readonly<Record<string, SQL.Aliased>>;

/** A statement in `sql` that returns rows. */
export class SqlWithRows<Row> {
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
export type Writable = Builder | SqlWithRows<unknown> | SQL;

/** The most values that D1 binds in a statement. */
const PARAMS_MAX = 100;

/** Prepares a statement. `fill` returns its values, and throws when one is missing or is of a type that D1 does not bind. */
export function prepare(drizzle: SqliteRemoteDatabase, built: Writable) {
  const { written, isRead, map } = write(drizzle, built);
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

function write(
  drizzle: SqliteRemoteDatabase,
  built: Writable,
): { written: StatementText; isRead: boolean; map?: Mapper | undefined } {
  if (is(built, SQL)) return { written: textOf(drizzle, built), isRead: false };
  if (built instanceof SqlWithRows) {
    const { text, isRead, fields } = built;
    const written = textOf(drizzle, text);
    if (isRead && WRITES.test(written.sql.replace(QUOTED, ""))) throw new TypeError(`Not a read: ${written.sql}`);
    return { written, isRead, map: fields === null ? undefined : mapperOf(drizzle, fields) };
  }
  const prepared = built.prepare();
  const written = textOf(drizzle, built.getSQL());
  if (!is(built, SQLiteSelectBase)) {
    // The statement was prepared with these fields, so its rows have their types.
    const map: Mapper = (rows) => prepared.mapAllResult(rows.map((row) => Object.values(row))) as object[];
    return { written, isRead: false, map };
  }
  return { written, isRead: true, map: mapperOf(drizzle, requireFields(built._.selectedFields)) };
}

/**
 * Constants stand in the text. A bound constant hides a partial index from SQLite, and a bound LIMIT makes it prepare the
 * statement again at every run.
 */
const textOf = (drizzle: SqliteRemoteDatabase, built: SQL): StatementText =>
  drizzle.run(sql`${built}`.inlineParams()).getQuery();

const QUOTED = /'[^']*'|"[^"]*"/g;

const WRITES = /\b(insert|update|delete|replace into)\b/i;

/** Decodes the fields that are not stored as they are. Drizzle's decoding of all fields takes most of the time of a long page. */
function mapperOf(drizzle: SqliteRemoteDatabase, selected: Selected): Mapper | undefined {
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

type Row = Readonly<Record<string, unknown>>;

const pick = (selected: Selected, names: readonly string[]): Selected =>
  Object.fromEntries(Object.entries(selected).filter(([name]) => names.includes(name)));

/** The fields of which Drizzle makes something else than the stored text "7": booleans, JSON and fields with `mapWith`. */
function decodedNames(drizzle: SqliteRemoteDatabase, selected: Selected): string[] {
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
