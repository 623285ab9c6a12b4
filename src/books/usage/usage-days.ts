import { eq, type SQL, sql } from "drizzle-orm";
import { asInteger, computed, drizzle, fields, hasRow, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { apps, usageDays, usageToSum, type usageTotals } from "../../db/schema.ts";
import { timesOf } from "../../db/settings-snapshot.ts";
import type { StatementRow } from "../../db/sql.ts";
import { assert } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import type { SystemCtx } from "../../runtime.ts";
import { carriedSums, minorOfSum, type Unit } from "../amounts/amount.ts";
import { amountsOf } from "./totals.ts";

// U18 and the dashboard read the cron's day sums by this file: by user from `usage_days`, and of all users together from
// `usage_totals`, which has the same sums in fewer rows.

type DaySums = typeof usageDays | typeof usageTotals;
export type DaySpan = { environmentId: number; from: number; to: number; rows: number };

/** Returns SQL for the rows of a span, at most `rows`. */
export const daysOfSpan = (value: ValueOf<DaySpan>, table: DaySums): SQL => sql`(
  SELECT * FROM ${table} WHERE ${table.environmentId} = ${value("environmentId")}
    AND ${table.day} >= ${value("from")} AND ${table.day} < ${value("to")} LIMIT ${asInteger(value("rows"))}
) AS ${table}`;

/** The sums of the rows of a group. */
export const sumsOf = (table: DaySums) => ({
  events: sql<number>`sum(${table.events})`,
  countHigh: carriedSums(table.countHigh, table.countLow).whole,
  countLow: carriedSums(table.countHigh, table.countLow).rest,
  tokensHigh: carriedSums(table.tokensHigh, table.tokensLow).whole,
  tokensLow: carriedSums(table.tokensHigh, table.tokensLow).rest,
  secondsHigh: carriedSums(table.secondsHigh, table.secondsLow).whole,
  secondsLow: carriedSums(table.secondsHigh, table.secondsLow).rest,
  centsHigh: carriedSums(table.centsHigh, table.centsLow).whole,
  centsLow: carriedSums(table.centsHigh, table.centsLow).rest,
});

/** The fields of one row, or of `sumsOf`. */
type Sums = Omit<RowOf<ReturnType<typeof sumsOf>>, "events">;

/** Returns the minor units of each unit. */
export const minorOfSums = (row: Sums): ReadonlyMap<Unit, bigint> =>
  new Map([
    ["count", minorOfSum({ whole: row.countHigh, rest: row.countLow })],
    ["tokens", minorOfSum({ whole: row.tokensHigh, rest: row.tokensLow })],
    ["seconds", minorOfSum({ whole: row.secondsHigh, rest: row.secondsLow })],
    ["cents", minorOfSum({ whole: row.centsHigh, rest: row.centsLow })],
  ]);

/** Returns the quantities as the API returns them. */
export const quantitiesOf = (row: Sums) => amountsOf(minorOfSums(row));

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
