import { and, count, desc, eq, gte, lt, sql } from "drizzle-orm";
import { requireEnvironment } from "../../catalog/apps.ts";
import { boundLimit, computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, usageDays, usageTotals } from "../../db/schema.ts";
import { all, batch, type StatementRow } from "../../db/sql.ts";
import { invalid } from "../../errors.ts";
import { DAY_MS, iso } from "../../lib/time.ts";
import type { SystemCtx, TenantCtx } from "../../runtime.ts";
import { exactAmount, UNITS } from "../amounts/amount.ts";
import { accountQuery } from "../ledger/account.ts";
import type { EnvironmentUsageInput } from "./environment-usage.ts";
import {
  addToSums,
  emptySums,
  presentSums,
  quantitiesOf,
  selectSumState,
  summedUntil,
  sumsOf,
  type UsageSums,
} from "./usage-days.ts";

/** The most sums by user, and the most sums of all users together, that the usage page adds up. */
export const FIGURE_SUMS_MAX = 10_000;
export const FIGURE_TOTALS_MAX = 2_000;
/** How many users are listed, by events and by each unit. */
const FIGURE_USERS_MAX = 100;

type FigureSpan = { environmentId: number; from: number; to: number; limit: number };

const SUM_FIELDS = [
  ...(["day", "event", "model", "events", "countHigh", "countLow"] as const),
  ...(["tokensHigh", "tokensLow", "secondsHigh", "secondsLow", "centsHigh", "centsLow"] as const),
  ...(["costHigh", "costLow", "withoutCost", "debitedHigh", "debitedLow"] as const),
] as const;

/** Returns whether a sum belongs to the span. The newest days come first, so that a span with too many sums keeps its last days. */
const isOfSpan = ({ environmentId, day }: typeof usageDays | typeof usageTotals, value: ValueOf<FigureSpan>) =>
  and(eq(environmentId, value("environmentId")), gte(day, value("from")), lt(day, value("to")));

const selectNewestTotals = query((value: ValueOf<FigureSpan>) =>
  drizzle
    .select(fields(usageTotals, ...SUM_FIELDS))
    .from(usageTotals)
    .where(isOfSpan(usageTotals, value))
    .orderBy(desc(usageTotals.day))
    .limit(boundLimit(value("limit"))),
);
const selectNewestSums = query((value: ValueOf<FigureSpan>) =>
  drizzle
    .select(fields(usageDays, ...SUM_FIELDS, "accountId"))
    .from(usageDays)
    .where(isOfSpan(usageDays, value))
    .orderBy(desc(usageDays.day))
    .limit(boundLimit(value("limit"))),
);
type TotalRow = StatementRow<typeof selectNewestTotals>;
type DaySumRow = StatementRow<typeof selectNewestSums>;

/** Returns the rows of the newest complete days. `rows` has one row more than `max` if the list is truncated. */
function wholeDays<Row extends TotalRow>(rows: readonly Row[], max: number, span: FigureSpan) {
  const isTruncated = rows.length > max;
  const [newest, oldest] = [rows[0]?.day ?? 0, rows.at(-1)?.day ?? 0];
  const isIncomplete = isTruncated && newest === oldest;
  const firstDay = !isTruncated ? span.from : isIncomplete ? newest : oldest + 1;
  return {
    rows: rows.filter(({ day }) => day >= firstDay),
    /** The first day. */
    from: dateOfDay(firstDay),
    /** Whether earlier days are left out. */
    isTruncated,
    /** Whether the only day is incomplete. */
    isIncomplete,
  };
}
const dateOfDay = (day: number): string => iso(day * DAY_MS).slice(0, 10);

const selectFigureNames = query((value: ValueOf<{ ids: string }>) =>
  drizzle
    .select(fields(accounts, { accountId: "id", userId: "userId" }))
    .from(accounts)
    .where(sql`${accounts.id} IN (SELECT value FROM json_each(${value("ids")}))`),
);

/** The usage of a group: of a day, an event, a model or a user. */
interface FigureGroup<Row extends TotalRow = TotalRow> extends UsageSums {
  /** A row of the group. All its rows agree only in the fields by which they are grouped. */
  readonly row: Row;
}

/** Adds up rows in groups by `keyOf`. Returns the groups with the most events first. */
function groupSums<Row extends TotalRow>(
  rows: readonly Row[],
  keyOf: (row: Row) => string | number,
): FigureGroup<Row>[] {
  const groups = new Map<string | number, FigureGroup<Row>>();
  for (const row of rows) {
    const key = keyOf(row);
    const group = groups.get(key) ?? { row, ...emptySums() };
    addToSums(group, row);
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.events - a.events);
}

function presentFigure({ row: { day, event, model }, ...sums }: FigureGroup) {
  const { events, quantities, cost, withoutCost } = presentSums(sums);
  return {
    ...{ day: dateOfDay(day), event, model: model === "" ? null : model, events, quantities },
    /** The operator's own cost in cents; null if no event has one (PR8). */
    ...{ cost, withoutCost },
    /** The amount that balances in cents paid. */
    debitedCents: exactAmount("cents", sums.debitedMinor),
  };
}

/** The largest users by events and by each unit. */
function largestUsers(users: readonly FigureGroup<DaySumRow>[]): FigureGroup<DaySumRow>[] {
  const byUnit = UNITS.flatMap((unit) => {
    const used = (group: (typeof users)[number]) => group.minor.get(unit) ?? 0n;
    const usersOfUnit = users.filter((group) => used(group) > 0n);
    return usersOfUnit.sort((a, b) => (used(b) > used(a) ? 1 : -1)).slice(0, FIGURE_USERS_MAX);
  });
  const largest = new Set([...users.slice(0, FIGURE_USERS_MAX), ...byUnit]);
  return users.filter((group) => largest.has(group));
}

/**
 * Returns the usage of an environment's users in a span, from the cron's sums (U18), for the dashboard: by day, model, event, day and
 * model, and of the largest users. Each list has the newest days whose sums fit. Throws `not_found`, and `invalid_request` for a
 * span that ends before it begins.
 */
export async function readUsageFigures(
  root: SystemCtx,
  appId: string,
  { mode, from, to }: Pick<EnvironmentUsageInput, "mode" | "from" | "to">,
) {
  if (to < from) throw invalid("to", "must not be before `from`");
  const { id: environmentId, clock } = await requireEnvironment(root, appId, mode);
  const span = { environmentId, from: from / DAY_MS, to: to / DAY_MS, limit: FIGURE_SUMS_MAX + 1 };
  const [newestTotals, newestSums, [state]] = await batch(root.db, [
    selectNewestTotals({ ...span, limit: FIGURE_TOTALS_MAX + 1 }),
    selectNewestSums(span),
    selectSumState({ appId, environmentId }),
  ]);
  const { rows: totals, ...spanOfTotals } = wholeDays(newestTotals, FIGURE_TOTALS_MAX, span);
  const { rows: sums, ...spanOfUsers } = wholeDays(newestSums, FIGURE_SUMS_MAX, span);
  const users = largestUsers(groupSums(sums, ({ accountId }) => accountId));
  const names = await all(root.db, selectFigureNames({ ids: JSON.stringify(users.map(({ row }) => row.accountId)) }));
  const nameOf = new Map(names.map(({ accountId, userId }) => [accountId, userId]));
  return {
    totals: {
      ...spanOfTotals,
      byDay: groupSums(totals, ({ day }) => day).map(presentFigure),
      byModel: groupSums(totals, ({ model }) => model).map(presentFigure),
      byEvent: groupSums(totals, ({ event }) => event).map(presentFigure),
      byDayAndModel: groupSums(totals, ({ day, model }) => `${day} ${model}`)
        .sort((a, b) => b.row.day - a.row.day || b.events - a.events)
        .map(presentFigure),
    },
    users: {
      ...spanOfUsers,
      largest: users.map((group) => ({
        ...presentFigure(group),
        userId: nameOf.get(group.row.accountId) ?? "",
      })),
    },
    upTo: summedUntil(root, clock, state),
  };
}
export type UsageFigures = Awaited<ReturnType<typeof readUsageFigures>>;

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
      ...computed({ rows: count(), ...sumsOf(usageDays) }),
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
    models: rows.map(({ model, events, ...row }) => ({
      ...{ model: model === "" ? null : model, events, quantities: quantitiesOf(row) },
    })),
    /** Whether the user has more day sums than are added up. */
    isPartial: rows.reduce((sum, row) => sum + row.rows, 0) >= USER_SUMS_MAX,
  };
}
export type UserModels = Awaited<ReturnType<typeof readUserModels>>;
