import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { assignments, insertFrom, names, query, type ValueOf } from "../../db/query.ts";
import { members, usageDays, usageTotals } from "../../db/schema.ts";
import { mergedMeters } from "./meter-sums.ts";

/** The amounts of an event that are summed in two parts. `debited` is what balances in cents paid. */
export const SUMMED_IN_PARTS = ["count", "tokens", "seconds", "cents", "cost", "debited"] as const;
export const DAY_COLUMNS = ["environmentId", "day", "accountId", "event", "model", "memberNumber"] as const;
/** The key of the sums of all accounts together. */
export const TOTAL_COLUMNS = ["environmentId", "day", "event", "model"] as const;
export const SUMS = [
  "events",
  "withoutCost",
  ...SUMMED_IN_PARTS.flatMap((of) => [`${of}High`, `${of}Low`] as const),
] as const;

type SumsTable = typeof usageDays | typeof usageTotals;

/** INSERT: adds the sums that `columnValue` names to those of the same key, or inserts them. `from` ends with a WHERE clause. */
function upsertSums<Table extends SumsTable>(
  table: Table,
  key: readonly (keyof Table & string)[],
  columnValue: (name: string) => SQL,
  from: SQL,
): SQL {
  // Both tables have these columns.
  const columnOf = (name: string) => table[name as keyof Table] as SQLiteColumn;
  const given = [...key, ...SUMS, "meters"].map((name) => [name, columnValue(name)]);
  const added = SUMS.map((name) => [name, sql`${columnOf(name)} + excluded.${names(columnOf(name))}`]);
  const merged = mergedMeters(table.meters, sql`excluded.${names(table.meters)}`);
  const insert = insertFrom(
    table,
    // The object has a key for every column.
    Object.fromEntries(given) as Parameters<typeof insertFrom<Table>>[1],
    from,
  );
  return sql`${insert} ON CONFLICT (${names(...key.map(columnOf))})
    DO UPDATE SET ${assignments(table, Object.fromEntries([...added, ["meters", merged]]))}`;
}

/** Returns the statement that adds sums, each a list in the order of `key`, `SUMS` and meters, to a table. */
const insertSums = <Table extends SumsTable>(table: Table, key: readonly (keyof Table & string)[]) =>
  query((value: ValueOf<{ sums: string }>) => {
    const places = [...key, ...SUMS, "meters"];
    const listed = (name: string) => sql`item.value ->> CAST(${places.indexOf(name)} AS INTEGER)`;
    const columnValue = (name: string) =>
      name === "memberNumber" ? knownMember(listed("accountId"), listed(name)) : listed(name);
    return upsertSums(table, key, columnValue, sql`FROM json_each(${value("sums")}) AS item WHERE true`);
  });

/** SQL: the member's number, or 0 if an erasure of the payer has deleted the member since the event was read (ME6). */
const knownMember = (account: SQL, number: SQL) => sql`iif(${number} > 0 AND EXISTS (
  SELECT 1 FROM ${members} WHERE ${members.accountId} = ${account} AND ${members.memberNumber} = ${number}
), ${number}, 0)`;

export const addDaySums = insertSums(usageDays, DAY_COLUMNS);
export const addTotals = insertSums(usageTotals, TOTAL_COLUMNS);

/** INSERT: adds the day sums `r` of members to those of their payers without a member. */
export const addSumsWithoutMember = (from: SQL): SQL =>
  upsertSums(
    usageDays,
    DAY_COLUMNS,
    // Every name is a column of the table.
    (name) =>
      name === "memberNumber" ? sql`0` : sql`r.${names(usageDays[name as keyof typeof usageDays] as SQLiteColumn)}`,
    from,
  );
