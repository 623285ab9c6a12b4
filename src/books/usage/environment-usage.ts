import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { requireEnvironment } from "../../catalog/apps.ts";
import { computed, drizzle, query, read, type ValueOf } from "../../db/query.ts";
import { accounts, members, usageDays, usageTotals } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import { invalid } from "../../errors.ts";
import { DAY_MS, iso } from "../../lib/time.ts";
import type { Mode, SystemCtx } from "../../runtime.ts";
import type { UnitAmounts } from "../amounts/amount.ts";
import { carriedSums } from "../amounts/amount-sql.ts";
import type { MeterAmounts } from "../amounts/meters.ts";
import { addMeterSum, eachMeter, METERS_OF_GROUPS_MAX, onceARow, sumOfDayMeters } from "./meter-sums.ts";
import {
  addToSums,
  type DaySpan,
  daysOfSpan,
  emptySums,
  presentSums,
  selectSumState,
  summedUntil,
  sumsOf,
  type UsageSums,
} from "./usage-days.ts";
import { GROUPS_MAX } from "./usage-groups.ts";

export interface EnvironmentUsageOutput {
  readonly totals: {
    readonly events: number;
    readonly quantities: UnitAmounts;
    readonly meters: MeterAmounts;
    /** The operator's own cost in cents (PR8). Null if no event had one. */
    readonly cost: number | null;
    readonly withoutCost: number;
    readonly time?: string | undefined;
    readonly event?: string | undefined;
    readonly model?: string | null | undefined;
    readonly userId?: string | undefined;
    readonly memberId?: string | undefined;
  }[];
  readonly upTo: string;
}

export interface EnvironmentUsageInput {
  readonly mode: Mode;
  readonly from: number;
  readonly to: number;
  readonly groupBy: "day" | "event" | "model" | "user" | "member";
}

/** The most rows of day sums that one request adds up. */
const DAY_SUMS_MAX = 2_000_000;
/** How many of the largest users are listed, by events and by each unit. */
const LARGEST_MAX = 100;
/** Groups of a span by a column and by meter. The first meter of a day sum has its other sums. */
const selectBy = (group: SQLiteColumn) =>
  query((value: ValueOf<DaySpan>) =>
    drizzle
      .select(
        computed({
          group: sql<number | string>`${group}`,
          rows: sql<number>`sum(${onceARow(sql`1`)})`,
          ...sumsOf(usageTotals, onceARow),
          ...{ meter: sql<string | null>`meter.key`, ...sumOfDayMeters },
        }),
      )
      .from(daysOfSpan(value, usageTotals))
      .leftJoin(eachMeter(usageTotals.meters), sql`true`)
      .groupBy(group, sql`meter.key`)
      .orderBy(group)
      .limit(METERS_OF_GROUPS_MAX + 1),
  );

const USAGE_UNITS = [
  [sql`usage.nh`, sql`usage.nl`],
  [sql`usage.th`, sql`usage.tl`],
  [sql`usage.sh`, sql`usage.sl`],
  [sql`usage.ch`, sql`usage.cl`],
] as const;

/** Selects the largest users, or with `by` a member the largest pairs of user and member, which `who` names as a JSON list. */
const selectLargestBy = (by: "user" | "member") =>
  query((value: ValueOf<DaySpan>) => {
    const userId = sql`(SELECT ${accounts.userId} FROM ${accounts} WHERE ${accounts.id} = portion.account)`;
    const memberId = sql`(
    SELECT ${members.memberId} FROM ${members} WHERE ${members.accountId} = portion.account AND ${members.memberNumber} = portion.member
  )`;
    const member = by === "member" ? sql`${usageDays.memberNumber}` : sql`0`;
    const who = by === "member" ? sql`json_array(${userId}, ${memberId})` : userId;
    const isListed = by === "member" ? sql`${usageDays.memberNumber} > 0` : sql`true`;
    const sumOf = sumsOf(usageDays, onceARow);
    const largest = (order: SQL, where = sql`1`) => sql`
    SELECT who FROM (SELECT usage.who FROM usage WHERE ${where} ORDER BY ${order}, usage.who LIMIT ${LARGEST_MAX})`;
    const byUnit = USAGE_UNITS.map(([high, low]) => largest(sql`${high} DESC, ${low} DESC`, sql`${high} + ${low} > 0`));
    const [counts, tokens] = [
      carriedSums(sql`portion.nh`, sql`portion.nl`),
      carriedSums(sql`portion.th`, sql`portion.tl`),
    ];
    const [seconds, cents] = [
      carriedSums(sql`portion.sh`, sql`portion.sl`),
      carriedSums(sql`portion.ch`, sql`portion.cl`),
    ];
    return read(
      computed({
        group: sql<string>`usage.who`,
        rows: sql<number>`(SELECT sum(usage.size) FROM usage)`,
        events: sql<number>`portion.e`,
        countHigh: sql<number>`portion.nh`,
        countLow: sql<number>`portion.nl`,
        tokensHigh: sql<number>`portion.th`,
        tokensLow: sql<number>`portion.tl`,
        secondsHigh: sql<number>`portion.sh`,
        secondsLow: sql<number>`portion.sl`,
        centsHigh: sql<number>`portion.ch`,
        centsLow: sql<number>`portion.cl`,
        costHigh: sql<number>`portion.oh`,
        costLow: sql<number>`portion.ol`,
        debitedHigh: sql<number>`portion.dh`,
        debitedLow: sql<number>`portion.dl`,
        withoutCost: sql<number>`portion.free`,
        meter: sql<string | null>`portion.meter`,
        whole: sql<number | null>`portion.upper`,
        rest: sql<number | null>`portion.lower`,
      }),
      (list) => sql`WITH portion AS MATERIALIZED (
      SELECT ${usageDays.accountId} AS account, ${member} AS member, meter.key AS meter, sum(${onceARow(sql`1`)}) AS size, ${sumOf.events} AS e,
        ${sumOf.countHigh} AS nh, ${sumOf.countLow} AS nl, ${sumOf.tokensHigh} AS th, ${sumOf.tokensLow} AS tl,
        ${sumOf.secondsHigh} AS sh, ${sumOf.secondsLow} AS sl, ${sumOf.centsHigh} AS ch, ${sumOf.centsLow} AS cl,
        ${sumOf.costHigh} AS oh, ${sumOf.costLow} AS ol, ${sumOf.withoutCost} AS free,
        ${sumOf.debitedHigh} AS dh, ${sumOf.debitedLow} AS dl,
        ${sumOfDayMeters.whole} AS upper, ${sumOfDayMeters.rest} AS lower
      FROM ${daysOfSpan(value, usageDays)} LEFT JOIN ${eachMeter(usageDays.meters)}
      WHERE ${isListed} GROUP BY ${usageDays.accountId}, member, meter.key
    ), usage AS MATERIALIZED (
      SELECT portion.account, portion.member, ${who} AS who, sum(portion.size) AS size, sum(portion.e) AS e, ${counts.whole} AS nh, ${counts.rest} AS nl,
        ${tokens.whole} AS th, ${tokens.rest} AS tl, ${seconds.whole} AS sh, ${seconds.rest} AS sl, ${cents.whole} AS ch,
        ${cents.rest} AS cl
      FROM portion GROUP BY portion.account, portion.member
    ) SELECT ${list} FROM usage JOIN portion USING (account, member)
      WHERE usage.who IN (${sql.join([largest(sql`usage.e DESC`), ...byUnit], sql` UNION `)})
      ORDER BY usage.e DESC, usage.who LIMIT ${METERS_OF_GROUPS_MAX + 1}`,
    );
  });

/** Reads the `who` of a pair, which SQLite wrote. */
function parsePair(who: string): { readonly userId: string; readonly memberId: string } {
  const [userId, memberId] = JSON.parse(who) as readonly [string, string];
  return { userId, memberId };
}

const selectTotals = {
  day: selectBy(usageTotals.day),
  event: selectBy(usageTotals.event),
  model: selectBy(usageTotals.model),
  user: selectLargestBy("user"),
  member: selectLargestBy("member"),
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
  const summed =
    groupBy === "user" || groupBy === "member" ? (rows[0]?.rows ?? 0) : rows.reduce((sum, row) => sum + row.rows, 0);
  if (summed > sumsMax) throw invalid("from", "must be later, or `to` earlier: there is too much usage in this span");
  const groups = new Map<number | string, UsageSums>();
  for (const row of rows) {
    const sums = groups.get(row.group) ?? emptySums();
    groups.set(row.group, sums);
    addToSums(sums, row);
    addMeterSum(sums.meters, row);
  }
  if (groups.size > GROUPS_MAX || rows.length > METERS_OF_GROUPS_MAX) {
    throw invalid(
      "from",
      `must be later, or \`to\` earlier: there are more than ${GROUPS_MAX} groups in this span, or ` +
        `${METERS_OF_GROUPS_MAX} with each of their meters`,
    );
  }
  return {
    totals: [...groups].map(([group, sums]) => ({
      ...(groupBy === "day" ? { time: iso(Number(group) * DAY_MS) } : {}),
      ...(groupBy === "event" ? { event: String(group) } : {}),
      ...(groupBy === "model" ? { model: group === "" ? null : String(group) } : {}),
      ...(groupBy === "user" ? { userId: String(group) } : {}),
      ...(groupBy === "member" ? parsePair(String(group)) : {}),
      ...presentSums(sums),
    })),
    upTo: summedUntil(root, clock, state),
  };
}
