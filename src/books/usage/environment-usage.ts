import { count, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { requireEnvironment } from "../../catalog/apps.ts";
import { computed, drizzle, query, read, type ValueOf } from "../../db/query.ts";
import { accounts, usageDays, usageTotals } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import { invalid } from "../../errors.ts";
import { DAY_MS, iso } from "../../lib/time.ts";
import type { Mode, SystemCtx } from "../../runtime.ts";
import type { UnitAmounts } from "../amounts/amount.ts";
import { GROUPS_MAX } from "./totals.ts";
import { type DaySpan, daysOfSpan, quantitiesOf, selectSumState, summedUntil, sumsOf } from "./usage-days.ts";

export interface EnvironmentUsageOutput {
  readonly totals: {
    readonly events: number;
    readonly quantities: UnitAmounts;
    readonly time?: string | undefined;
    readonly event?: string | undefined;
    readonly model?: string | null | undefined;
    readonly userId?: string | undefined;
  }[];
  readonly upTo: string;
}

export interface EnvironmentUsageInput {
  readonly mode: Mode;
  readonly from: number;
  readonly to: number;
  readonly groupBy: "day" | "event" | "model" | "user";
}

/** The most rows of day sums that one request adds up. */
const DAY_SUMS_MAX = 2_000_000;
/** How many of the largest users are listed, by events and by each unit. */
const LARGEST_MAX = 100;
const selectBy = (group: SQLiteColumn) =>
  query((value: ValueOf<DaySpan>) =>
    drizzle
      .select(computed({ group: sql<number | string>`${group}`, rows: count(), ...sumsOf(usageTotals) }))
      .from(daysOfSpan(value, usageTotals))
      .groupBy(group)
      .orderBy(group)
      .limit(GROUPS_MAX + 1),
  );

const USAGE_UNITS = [
  [sql`usage.nh`, sql`usage.nl`],
  [sql`usage.th`, sql`usage.tl`],
  [sql`usage.sh`, sql`usage.sl`],
  [sql`usage.ch`, sql`usage.cl`],
] as const;

const selectLargest = query((value: ValueOf<DaySpan>) => {
  const userId = sql`(SELECT ${accounts.userId} FROM ${accounts} WHERE ${accounts.id} = ${usageDays.accountId})`;
  const sumOf = sumsOf(usageDays);
  const largest = (order: SQL, where = sql`1`) => sql`
    SELECT who FROM (SELECT usage.who FROM usage WHERE ${where} ORDER BY ${order}, usage.who LIMIT ${LARGEST_MAX})`;
  const byUnit = USAGE_UNITS.map(([high, low]) => largest(sql`${high} DESC, ${low} DESC`, sql`${high} + ${low} > 0`));
  return read(
    computed({
      group: sql<string>`usage.who`,
      rows: sql<number>`(SELECT sum(usage.size) FROM usage)`,
      events: sql<number>`usage.e`,
      countHigh: sql<number>`usage.nh`,
      countLow: sql<number>`usage.nl`,
      tokensHigh: sql<number>`usage.th`,
      tokensLow: sql<number>`usage.tl`,
      secondsHigh: sql<number>`usage.sh`,
      secondsLow: sql<number>`usage.sl`,
      centsHigh: sql<number>`usage.ch`,
      centsLow: sql<number>`usage.cl`,
    }),
    (list) => sql`WITH usage AS MATERIALIZED (
      SELECT ${userId} AS who, count(*) AS size, ${sumOf.events} AS e, ${sumOf.countHigh} AS nh, ${sumOf.countLow} AS nl,
        ${sumOf.tokensHigh} AS th, ${sumOf.tokensLow} AS tl, ${sumOf.secondsHigh} AS sh, ${sumOf.secondsLow} AS sl,
        ${sumOf.centsHigh} AS ch, ${sumOf.centsLow} AS cl
      FROM ${daysOfSpan(value, usageDays)} GROUP BY ${usageDays.accountId}
    ) SELECT ${list} FROM usage
      WHERE usage.who IN (${sql.join([largest(sql`usage.e DESC`), ...byUnit], sql` UNION `)})
      ORDER BY usage.e DESC, usage.who`,
  );
});

const selectTotals = {
  day: selectBy(usageTotals.day),
  event: selectBy(usageTotals.event),
  model: selectBy(usageTotals.model),
  user: selectLargest,
};

/**
 * Returns the usage of an environment's users on the days of a span, in groups (U18), from the cron's sums. Throws `not_found`, and
 * `invalid_request` for a span with too many sums or groups.
 */
export async function readEnvironmentUsage(
  root: SystemCtx,
  appId: string,
  { mode, from, to, groupBy }: EnvironmentUsageInput,
  sumsMax = DAY_SUMS_MAX,
): Promise<EnvironmentUsageOutput> {
  if (to < from) throw invalid("to", "must not be before `from`");
  const { id: environmentId, clock } = await requireEnvironment(root, appId, mode);
  const span = { environmentId, from: from / DAY_MS, to: to / DAY_MS, rows: sumsMax + 1 };
  const [rows, [state]] = await batch(root.db, [selectTotals[groupBy](span), selectSumState({ appId, environmentId })]);
  const summed = groupBy === "user" ? (rows[0]?.rows ?? 0) : rows.reduce((sum, row) => sum + row.rows, 0);
  if (summed > sumsMax) throw invalid("from", "must be later, or `to` earlier: there is too much usage in this span");
  if (rows.length > GROUPS_MAX) {
    throw invalid(
      "from",
      `must be later, or \`to\` earlier: there are more than ${GROUPS_MAX} different groups in this time`,
    );
  }
  return {
    totals: rows.map(({ group, ...row }) => ({
      ...(groupBy === "day" ? { time: iso(Number(group) * DAY_MS) } : {}),
      ...(groupBy === "event" ? { event: String(group) } : {}),
      ...(groupBy === "model" ? { model: group === "" ? null : String(group) } : {}),
      ...(groupBy === "user" ? { userId: String(group) } : {}),
      events: row.events,
      quantities: quantitiesOf(row),
    })),
    upTo: summedUntil(root, clock, state),
  };
}
