import { sql } from "drizzle-orm";
import { addSumsWithoutMember, DAY_COLUMNS } from "../books/usage/add-sums.ts";
import { names, query, type ValueOf } from "../db/query.ts";
import { usageDays } from "../db/schema.ts";
import { type ErasurePage, id, idsWithOpenAccounts, ofRow, rowsMax } from "./page-rows.ts";

const daySumKey = DAY_COLUMNS.map((name) => usageDays[name]);

/** FROM: day sums `r` of members of the payers that are erased. The index has only these, in the order of the key. */
const memberSums = (value: ValueOf<ErasurePage>) => sql`(
  SELECT r.* FROM ${idsWithOpenAccounts(value)} CROSS JOIN ${usageDays} AS r INDEXED BY usage_days_member
    ON ${ofRow(usageDays.accountId)} = ${id.accountId} AND ${ofRow(usageDays.memberNumber)} > 0
  LIMIT ${rowsMax(value)}
) AS r`;

/** The statements that take members off the day sums of erased payers, in order: both read the same rows (ME6). */
export const daySumsOfPage = [
  query((value: ValueOf<ErasurePage>) => addSumsWithoutMember(sql`FROM ${memberSums(value)} WHERE true`)),
  query(
    (value: ValueOf<ErasurePage>) => sql`
    DELETE FROM ${usageDays} WHERE (${names(...daySumKey)}) IN (SELECT ${sql.join(daySumKey.map(ofRow), sql`, `)} FROM ${memberSums(value)})`,
  ),
];
