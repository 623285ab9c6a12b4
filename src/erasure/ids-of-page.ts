import { fragment } from "../db/sql.ts";
import type { ErasureKey } from "./ids.ts";

/** The named values of a page's statements: each is about at most `rows` rows. */
export type Page = ErasureKey & { rows: number };

const IDS_OF_PAGE = 200;
export const rowsSql = "CAST(:rows AS INTEGER)";

/** The ids at hand: those that were found last, so that an id leaves after all that it claims. */
export const ids = fragment`(
  SELECT * FROM erasure_ids WHERE environment_id = :environmentId AND erasure_id = :erasureId
  ORDER BY position DESC LIMIT ${`${IDS_OF_PAGE}`}
)`;

/** Those of them that have books, with which the erasure is not done. */
export const openIds = fragment`(SELECT * FROM ${ids} WHERE account_id IS NOT NULL AND is_done = 0)`;

/** SQL: the rows `r` of the ids `i` in a table whose column names them. */
export const rowsOfIds = (
  table: string,
  column = "distinct_id",
): string => fragment`${ids} AS i CROSS JOIN ${table} AS r
  ON r.environment_id = i.environment_id AND r.${column} = i.distinct_id`;
