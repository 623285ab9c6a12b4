import { getTableColumns, type SQL, sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import type { creditBalances, persons } from "../db/schema.ts";

/** What every page is read with. */
export interface Reading {
  readonly db: Db;
  readonly environmentId: number;
  /** A condition: whoever was found is not erased. Constant within a statement, so it costs one row. */
  readonly isStillThere: SQL;
}

/** How far one id's rows of a list reached at the moment of the snapshot: their seq run from 1 to `last`. */
export interface Bound {
  readonly id: string;
  readonly last: number;
}

/** Every column of a table, each under the name of its field. */
export function columnsOf(table: typeof persons | typeof creditBalances, alias: string): SQL {
  const columns = Object.entries(getTableColumns(table));
  return sql.raw(columns.map(([field, column]) => `${alias}.${column.name} AS "${field}"`).join(", "));
}
