import { and, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn, type SQLiteTable } from "drizzle-orm/sqlite-core";
import { asInteger, names, type ValueOf } from "../db/query.ts";
import { erasureIds } from "../db/schema.ts";

export type ErasureKey = { environmentId: number; erasureId: string };
/** The named values of a page's statements: each is about at most `rows` rows. */
export type Page = ErasureKey & { rows: number };

const IDS_OF_PAGE = 200;
export const rowsMax = (value: ValueOf<Page>) => asInteger(value("rows"));

export const isIdOf = (value: ValueOf<ErasureKey>) =>
  and(eq(erasureIds.environmentId, value("environmentId")), eq(erasureIds.erasureId, value("erasureId")));

/** An id of a page, wherever one is selected. */
export const id = alias(erasureIds, "i");

/** The ids at hand: those that were found last, so that an id leaves after all that it claims. */
export const idsAtHand = (value: ValueOf<Page>) => sql`(
  SELECT * FROM ${erasureIds} WHERE ${isIdOf(value)} ORDER BY ${erasureIds.position} DESC LIMIT ${IDS_OF_PAGE}
) AS ${id}`;

/** Those of them that have books, with which the erasure is not done. */
export const openIds = (value: ValueOf<Page>) => sql`(
  SELECT * FROM ${idsAtHand(value)} WHERE ${id.accountId} IS NOT NULL AND ${id.isDone} = 0
) AS ${id}`;

export const distinctIdsAtHand = (value: ValueOf<Page>) => sql`(SELECT ${id.distinctId} FROM ${idsAtHand(value)})`;
export const openAccounts = (value: ValueOf<Page>) => sql`(SELECT ${id.accountId} FROM ${openIds(value)})`;

/** A column of `r`, the row of a page. */
export const ofRow = (column: SQLiteColumn) => sql`r.${names(column)}`;

/** A table whose rows name ids. */
export type TableOfIds = SQLiteTable & { readonly environmentId: SQLiteColumn };

/** Whether a row of a table names an id, by its column `named`. */
export const namesId = ({ environmentId }: Pick<TableOfIds, "environmentId">, named: SQLiteColumn) =>
  and(eq(environmentId, id.environmentId), eq(named, id.distinctId));

/** FROM: the rows `r` of a table whose column `named` has one of the ids at hand. */
export const rowsOfIds = (value: ValueOf<Page>, table: TableOfIds, named: SQLiteColumn): SQL => sql`
  ${idsAtHand(value)} CROSS JOIN ${table} AS r
  ON ${ofRow(table.environmentId)} = ${id.environmentId} AND ${ofRow(named)} = ${id.distinctId}`;
