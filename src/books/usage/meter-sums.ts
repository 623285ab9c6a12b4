import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { exactAmount } from "../amounts/amount.ts";
import { minorOfSum, partsOf, partsOfThousandths } from "../amounts/amount-sql.ts";
import { type MeterAmounts, meterThousandths, readSentMeters } from "../amounts/meters.ts";

// Sums of meters by name (PR6). A sum of thousandths has two parts, as sums of amounts have: the upper bits and the lower 26.

type MeterColumn = SQL | SQLiteColumn;

/** The most pairs of a group and a meter that one request adds up. */
export const METERS_OF_GROUPS_MAX = 25_000;

/** A row for each of a row's meters; a row without meters stays one row. For a LEFT JOIN. */
export const eachMeter = (meters: MeterColumn): SQL => sql`json_each(${meters}) AS meter`;

/** Returns a number in the row of the first meter, and 0 in the others, so that its sum counts each row once. */
export const onceARow = (number: MeterColumn): SQL<number> =>
  sql<number>`iif(coalesce(meter.rowid, 0) = 0, ${number}, 0)`;

/** The thousandths of a meter that was sent, from its text: a double would not have all digits. */
function sentThousandths(meters: MeterColumn): SQL {
  const text = sql`(${meters} -> meter.fullkey)`;
  const decimals = sql`substr(substr(${text}, instr(${text}, '.') + 1) || '000', 1, 3)`;
  return sql`(CAST(${text} AS INTEGER) * 1000 + iif(instr(${text}, '.') = 0, 0, CAST(${decimals} AS INTEGER)))`;
}

/** The parts of the sum of meters that were sent. Null for none. */
export function sumOfSent(meters: MeterColumn) {
  const { whole, rest } = partsOf(sentThousandths(meters));
  return { whole: sql<number | null>`sum(${whole})`, rest: sql<number | null>`sum(${rest})` };
}

/** The names of meters that a day sum keeps. Real price lists have far fewer. */
const METERS_OF_DAY_MAX = 200;

/** The sums of meters in a day sum: two parts by name. */
export type DayMeters = Record<string, [whole: number, rest: number]>;

/** Adds an event's stored meters to those of its day. */
export function addSentMeters(sums: DayMeters, stored: string): void {
  for (const [name, thousandths] of meterThousandths(readSentMeters(stored))) {
    const [whole, rest] = partsOfThousandths(thousandths);
    const [wholeBefore, restBefore] = sums[name] ?? [0, 0];
    sums[name] = [wholeBefore + whole, restBefore + rest];
  }
}

/** SQL: the meters of a day sum with others added. Those that it has come first, so that new names never replace them. */
export const mergedMeters = (stored: MeterColumn, added: SQL): SQL => sql`iif(${added} IS NULL, ${stored}, (
  SELECT json_group_object(meter, json_array(upper, lower)) FROM (
    SELECT key AS meter, sum(value ->> 0) AS upper, sum(value ->> 1) AS lower FROM (
      SELECT 0 AS place, key, value FROM json_each(coalesce(${stored}, '{}'))
      UNION ALL SELECT 1, key, value FROM json_each(${added})
    ) GROUP BY key ORDER BY min(place), key LIMIT ${METERS_OF_DAY_MAX}
  )))`;

/** The parts of the sum of the meters of day sums. Null for none. */
export const sumOfDayMeters = {
  whole: sql<number | null>`sum(meter.value ->> 0)`,
  rest: sql<number | null>`sum(meter.value ->> 1)`,
};

/** A row with the sum of a meter. Its name is null if no meter was sent. */
interface MeterSum {
  readonly meter: string | null;
  readonly whole: number | null;
  readonly rest: number | null;
}

/** Adds a row's sum to those of a group, in thousandths. */
export function addMeterSum(sums: Map<string, bigint>, { meter, whole, rest }: MeterSum): void {
  if (meter === null) return;
  sums.set(meter, (sums.get(meter) ?? 0n) + minorOfSum({ whole: whole ?? 0, rest: rest ?? 0 }));
}

/** Returns sums of meters in the form of the API, in the order of their names. */
export const presentMeterSums = (sums: ReadonlyMap<string, bigint>): MeterAmounts =>
  Object.fromEntries(
    [...sums]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, thousandths]) => [name, exactAmount("count", thousandths)]),
  );
