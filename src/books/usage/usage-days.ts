import { eq, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { asInteger, computed, drizzle, fields, hasRow, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { apps, usageDays, usageToSum, type usageTotals } from "../../db/schema.ts";
import { timesOf } from "../../db/settings-snapshot.ts";
import type { StatementRow } from "../../db/sql.ts";
import { assert } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import type { SystemCtx } from "../../runtime.ts";
import { exactAmount, type Unit } from "../amounts/amount.ts";
import { carriedSums, minorOfSum } from "../amounts/amount-sql.ts";
import { presentMeterSums } from "./meter-sums.ts";
import { presentAmounts } from "./usage-groups.ts";

// U18 and the dashboard read the cron's day sums by this file: by user from `usage_days`, and of all users together from
// `usage_totals`, which has the same sums in fewer rows.

type DaySums = typeof usageDays | typeof usageTotals;
export type DaySpan = { environmentId: number; from: number; to: number; rows: number };

/** Returns SQL for the rows of a span, at most `rows`. */
export const daysOfSpan = (value: ValueOf<DaySpan>, table: DaySums): SQL => sql`(
  SELECT * FROM ${table} WHERE ${table.environmentId} = ${value("environmentId")}
    AND ${table.day} >= ${value("from")} AND ${table.day} < ${value("to")} LIMIT ${asInteger(value("rows"))}
) AS ${table}`;

/**
 * The sums of the rows of a group. With `eachMeter` joined, a row is several, of which `once` counts one: pass `onceARow`. Then each
 * group of a meter has that meter's sum too.
 */
export function sumsOf(table: DaySums, once: (column: SQLiteColumn) => SQL | SQLiteColumn = (column) => column) {
  const pair = (high: SQLiteColumn, low: SQLiteColumn) => carriedSums(once(high), once(low));
  const { whole: countHigh, rest: countLow } = pair(table.countHigh, table.countLow);
  const { whole: tokensHigh, rest: tokensLow } = pair(table.tokensHigh, table.tokensLow);
  const { whole: secondsHigh, rest: secondsLow } = pair(table.secondsHigh, table.secondsLow);
  const { whole: centsHigh, rest: centsLow } = pair(table.centsHigh, table.centsLow);
  const { whole: costHigh, rest: costLow } = pair(table.costHigh, table.costLow);
  const { whole: debitedHigh, rest: debitedLow } = pair(table.debitedHigh, table.debitedLow);
  return {
    events: sql<number>`sum(${once(table.events)})`,
    ...{ countHigh, countLow, tokensHigh, tokensLow, secondsHigh, secondsLow, centsHigh, centsLow },
    ...{ debitedHigh, debitedLow },
    ...{ costHigh, costLow, withoutCost: sql<number>`sum(${once(table.withoutCost)})` },
  };
}

/** The fields of one row, or of `sumsOf`. */
type Sums = RowOf<ReturnType<typeof sumsOf>>;
type QuantitySums = Omit<Sums, "events" | "withoutCost" | "costHigh" | "costLow" | "debitedHigh" | "debitedLow">;

/** Returns the minor units of each unit. */
const minorOfSums = (row: QuantitySums): ReadonlyMap<Unit, bigint> =>
  new Map([
    ["count", minorOfSum({ whole: row.countHigh, rest: row.countLow })],
    ["tokens", minorOfSum({ whole: row.tokensHigh, rest: row.tokensLow })],
    ["seconds", minorOfSum({ whole: row.secondsHigh, rest: row.secondsLow })],
    ["cents", minorOfSum({ whole: row.centsHigh, rest: row.centsLow })],
  ]);

/** Returns the quantities as the API returns them. */
export const quantitiesOf = (row: QuantitySums) => presentAmounts(minorOfSums(row));

/** The sums of a group of events (U18). */
export interface UsageSums {
  events: number;
  readonly minor: Map<Unit, bigint>;
  readonly meters: Map<string, bigint>;
  costMinor: bigint;
  /** The amount that balances in cents paid. */
  debitedMinor: bigint;
  withoutCost: number;
}

export const emptySums = (): UsageSums => ({
  ...{ events: 0, minor: new Map(), meters: new Map(), costMinor: 0n, debitedMinor: 0n, withoutCost: 0 },
});

/** Adds a row of sums to those of its group. */
export function addToSums(sums: UsageSums, row: Sums): void {
  sums.events += row.events;
  for (const [unit, minor] of minorOfSums(row)) sums.minor.set(unit, (sums.minor.get(unit) ?? 0n) + minor);
  sums.costMinor += minorOfSum({ whole: row.costHigh, rest: row.costLow });
  sums.debitedMinor += minorOfSum({ whole: row.debitedHigh, rest: row.debitedLow });
  sums.withoutCost += row.withoutCost;
}

/** Returns the sums of a group as the API returns them. */
export const presentSums = ({ events, minor, meters, costMinor, withoutCost }: UsageSums) => ({
  ...{ events, quantities: presentAmounts(minor), meters: presentMeterSums(meters) },
  cost: withoutCost === events ? null : exactAmount("cents", costMinor),
  withoutCost,
});

/** The longest time between the moment at which a request reads the clock and the moment at which it writes its event. */
const REQUEST_MS_MAX = 60_000;

/** Selects the values that determine up to when an environment's events are summed. */
export const selectSumState = query((value: ValueOf<{ appId: string; environmentId: number }>) =>
  drizzle
    .select({
      ...fields(apps, "createdAtMs"),
      ...computed({
        isSummed: sql<0 | 1>`${hasRow(usageDays, eq(usageDays.environmentId, value("environmentId")))}`,
        oldestMs: sql<number | null>`(
          SELECT min(${usageToSum.receivedAtMs}) FROM ${usageToSum}
          WHERE ${usageToSum.environmentId} = ${value("environmentId")}
        )`,
      }),
    })
    .from(apps)
    .where(eq(apps.id, value("appId"))),
);

/** Returns the moment until which all received events are in the sums. `state` is the row of an existing application. */
export function summedUntil(
  root: SystemCtx,
  clock: Parameters<typeof timesOf>[0],
  state: StatementRow<typeof selectSumState> | undefined,
): string {
  assert(state !== undefined, "an environment has an application");
  const { createdAtMs, isSummed, oldestMs } = state;
  const nowMs = timesOf(clock, root).now();
  const summedMs = isSummed === 0 ? createdAtMs : Math.min(oldestMs ?? nowMs, nowMs - REQUEST_MS_MAX);
  return iso(Math.max(createdAtMs, summedMs));
}
