import { count, eq, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { requireEnvironment } from "../../catalog/apps.ts";
import { timesOf } from "../../db/features.ts";
import { asInteger, computed, drizzle, fields, hasRow, query, type RowOf, read, type ValueOf } from "../../db/query.ts";
import { accounts, apps, usageDays, usageToSum } from "../../db/schema.ts";
import { all, batch, type StatementRow } from "../../db/sql.ts";
import { assert, invalid } from "../../errors.ts";
import { DAY_MS, iso } from "../../lib/time.ts";
import type { Mode, SystemCtx, TenantCtx } from "../../runtime.ts";
import { carriedSums, stepsOfSum, type UnitAmounts } from "../amounts/amount.ts";
import { accountQuery } from "../ledger/account.ts";
import { amountsOf, GROUPS_MAX } from "./totals.ts";

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
/** The longest time between the moment at which a request reads the clock and the moment at which it writes its event. */
const REQUEST_MS_MAX = 60_000;

type DaySpan = { environmentId: number; from: number; to: number; rows: number };

const daysOfSpan = (value: ValueOf<DaySpan>) => sql`(
  SELECT * FROM ${usageDays} WHERE ${usageDays.environmentId} = ${value("environmentId")}
    AND ${usageDays.day} >= ${value("from")} AND ${usageDays.day} < ${value("to")} LIMIT ${asInteger(value("rows"))}
) AS ${usageDays}`;

const sums = () => ({
  events: sql<number>`sum(${usageDays.events})`,
  countHigh: carriedSums(usageDays.countHigh, usageDays.countLow).whole,
  countLow: carriedSums(usageDays.countHigh, usageDays.countLow).rest,
  tokensHigh: carriedSums(usageDays.tokensHigh, usageDays.tokensLow).whole,
  tokensLow: carriedSums(usageDays.tokensHigh, usageDays.tokensLow).rest,
  secondsHigh: carriedSums(usageDays.secondsHigh, usageDays.secondsLow).whole,
  secondsLow: carriedSums(usageDays.secondsHigh, usageDays.secondsLow).rest,
  centsHigh: carriedSums(usageDays.centsHigh, usageDays.centsLow).whole,
  centsLow: carriedSums(usageDays.centsHigh, usageDays.centsLow).rest,
});

type Sums = RowOf<ReturnType<typeof sums>>;

const quantitiesOf = (row: Sums) =>
  amountsOf(
    new Map([
      ["count", stepsOfSum({ whole: row.countHigh, rest: row.countLow })],
      ["tokens", stepsOfSum({ whole: row.tokensHigh, rest: row.tokensLow })],
      ["seconds", stepsOfSum({ whole: row.secondsHigh, rest: row.secondsLow })],
      ["cents", stepsOfSum({ whole: row.centsHigh, rest: row.centsLow })],
    ]),
  );

const selectBy = (group: SQLiteColumn) =>
  query((value: ValueOf<DaySpan>) =>
    drizzle
      .select(computed({ group: sql<number | string>`${group}`, rows: count(), ...sums() }))
      .from(daysOfSpan(value))
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
  const sumOf = sums();
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
      FROM ${daysOfSpan(value)} GROUP BY ${usageDays.accountId}
    ) SELECT ${list} FROM usage
      WHERE usage.who IN (${sql.join([largest(sql`usage.e DESC`), ...byUnit], sql` UNION `)})
      ORDER BY usage.e DESC, usage.who`,
  );
});

const selectTotals = {
  day: selectBy(usageDays.day),
  event: selectBy(usageDays.event),
  model: selectBy(usageDays.model),
  user: selectLargest,
};

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

/** The most day sums of a user that are added up. */
const USER_SUMS_MAX = 2_000;

const selectUserModels = accountQuery((value: ValueOf<{ environmentId: number; days: string }>, account) => {
  const { environmentId, day, accountId, model, events } = usageDays;
  // Day by day, because the table is ordered by day before account.
  const ofUser = sql`(
    SELECT ${usageDays}.* FROM json_each(${value("days")}) AS of_day CROSS JOIN ${usageDays}
    ON ${environmentId} = ${value("environmentId")} AND ${day} = of_day.value AND ${accountId} = ${account}
    LIMIT ${USER_SUMS_MAX}
  ) AS ${usageDays}`;
  return drizzle
    .select({
      ...fields(usageDays, "model"),
      ...computed({ rows: count(), firstDay: sql<number>`min(${day})`, ...sums() }),
    })
    .from(ofUser)
    .groupBy(model)
    .orderBy(sql`sum(${events}) DESC`, model);
});

/** Returns a user's usage of the last `days` days by model, the most events first, from the cron's sums. Takes one trip. */
export async function readUserModels(ctx: TenantCtx, userId: string, days: number) {
  const today = Math.floor(ctx.now() / DAY_MS);
  const lastDays = JSON.stringify(Array.from({ length: days }, (_, ago) => today - ago));
  const rows = await all(ctx.db, selectUserModels(ctx, { userId }, { days: lastDays }));
  return {
    days,
    /** The days from the first of these days with usage until today; 0 without usage. */
    daysSinceFirst: rows.length === 0 ? 0 : today - Math.min(...rows.map(({ firstDay }) => firstDay)) + 1,
    models: rows.map(({ model, events, ...row }) => ({
      ...{ model: model === "" ? null : model, events, quantities: quantitiesOf({ ...row, events }) },
    })),
    /** Whether the user has more day sums than are added up. */
    isPartial: rows.reduce((sum, row) => sum + row.rows, 0) >= USER_SUMS_MAX,
  };
}
export type UserModels = Awaited<ReturnType<typeof readUserModels>>;
