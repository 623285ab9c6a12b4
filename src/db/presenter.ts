/**
 * Defines the public form of a resource once, for both writers: JavaScript makes responses and pages, SQLite writes the JSON of
 * exports. test/worker/db/presenter.test.ts compares both.
 */

import { getTableColumns, type SQL, type SQLWrapper, sql } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { iso } from "../lib/time.ts";

/** A public field: its value in JavaScript, and its JSON text in SQLite, which is never null. */
export interface WireField<Row, Out> {
  readonly of: (row: Row) => Out;
  readonly json: () => SQL;
}

export type WireFields = Readonly<Record<string, WireField<never, unknown>>>;
type RowFor<Fields extends WireFields> = Fields[keyof Fields]["of"] extends (row: infer Row) => unknown ? Row : never;
type Presented<Fields extends WireFields> = { -readonly [Name in keyof Fields]: ReturnType<Fields[Name]["of"]> };

/** Returns a function that makes the public form of a row. `fields` are under their public names. */
export function presenter<const Fields extends WireFields>(fields: Fields): (row: RowFor<Fields>) => Presented<Fields> {
  const entries = Object.entries(fields);
  // Each field takes a part of `RowFor`, and each name occurs once.
  return (row) => Object.fromEntries(entries.map(([name, { of }]) => [name, of(row as never)])) as Presented<Fields>;
}

/** Returns functions that make a public field from one column of a table. */
export function wire<Table extends SQLiteTable>(table: Table) {
  type Row = Table["$inferSelect"];
  type Name = keyof Row & string;
  const columns: Readonly<Record<string, SQLiteColumn>> = getTableColumns(table);
  const column = (name: string): SQLiteColumn => {
    const match = columns[name];
    if (match === undefined) throw new TypeError(`No column ${name}.`);
    return match;
  };
  return {
    /** A text or a number, as stored. */
    plain: <Of extends Name>(name: Of): WireField<Pick<Row, Of>, Row[Of]> => ({
      of: (row) => row[name],
      json: () => sql`json_quote(${column(name)})`,
    }),
    flag: <Of extends Name>(name: Of): WireField<Pick<Row, Of>, Row[Of]> => ({
      of: (row) => row[name],
      json: () => sql`CASE ${column(name)} WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE 'null' END`,
    }),
    time: <Of extends Name>(name: Of): WireField<{ readonly [Name in Of]: number }, string> => ({
      of: (row) => iso(row[name]),
      json: () => isoJson(column(name)),
    }),
  };
}

/**
 * SQL: milliseconds as ISO 8601, in JSON. It uses integers only, because SQLite's own milliseconds are floats. It rounds down, also
 * before 1970.
 */
export function isoJson(ms: SQLWrapper): SQL {
  const milliseconds = sql`((${ms} % 1000 + 1000) % 1000)`;
  const seconds = sql`((${ms} - ${milliseconds}) / 1000)`;
  return sql`'"' || strftime('%Y-%m-%dT%H:%M:%S', ${seconds}, 'unixepoch') || printf('.%03dZ"', ${milliseconds})`;
}
