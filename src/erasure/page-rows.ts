import { and, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn, type SQLiteTable } from "drizzle-orm/sqlite-core";
import { asInteger, names, type ValueOf } from "../db/query.ts";
import { erasureIds } from "../db/schema.ts";

export type ErasureKey = { environmentId: number; erasureId: string };

/** The named values of a page's statements. Each statement changes at most `rows` rows. */
export type ErasurePage = ErasureKey & { rows: number };

export type OfPage = ValueOf<ErasurePage>;

const IDS_OF_PAGE = 200;

export const rowsMax = (value: OfPage) => asInteger(value("rows"));

export const isIdOf = (value: ValueOf<ErasureKey>) =>
  and(eq(erasureIds.environmentId, value("environmentId")), eq(erasureIds.erasureId, value("erasureId")));

/** An id of a page. */
export const id = alias(erasureIds, "i");

/** FROM: the current ids, the last found first, so that an id is finished after all ids that it claims. */
export const currentIds = (value: OfPage) => sql`(
  SELECT * FROM ${erasureIds} WHERE ${isIdOf(value)} ORDER BY ${erasureIds.position} DESC LIMIT ${IDS_OF_PAGE}
) AS ${id}`;

/** FROM: the current ids whose books are not finished. */
export const idsWithOpenAccounts = (value: OfPage) => sql`(
  SELECT * FROM ${currentIds(value)} WHERE ${id.accountId} IS NOT NULL AND ${id.isDone} = 0
) AS ${id}`;

export const currentDistinctIds = (value: OfPage) => sql`(SELECT ${id.distinctId} FROM ${currentIds(value)})`;

export const accountsWithOpenBooks = (value: OfPage) =>
  sql`(SELECT ${id.accountId} FROM ${idsWithOpenAccounts(value)})`;

/** A column of `r`, a row of the page. */
export const ofRow = (column: SQLiteColumn) => sql`r.${names(column)}`;

/** A table whose rows contain ids. */
export type TableOfIds = SQLiteTable & { readonly environmentId: SQLiteColumn };

/** SQL: whether `column` of a row contains the id. */
export const namesId = ({ environmentId }: Pick<TableOfIds, "environmentId">, column: SQLiteColumn) =>
  and(eq(environmentId, id.environmentId), eq(column, id.distinctId));

export const isOfErasedEnvironment = (value: OfPage, { environmentId }: TableOfIds) =>
  eq(environmentId, value("environmentId"));

/** FROM: the rows `r` of a table whose `column` contains one of the current ids. */
export const rowsOfIds = (value: OfPage, table: TableOfIds, column: SQLiteColumn): SQL => sql`
  ${currentIds(value)} CROSS JOIN ${table} AS r
  ON ${ofRow(table.environmentId)} = ${id.environmentId} AND ${ofRow(column)} = ${id.distinctId}`;
