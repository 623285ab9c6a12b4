import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { environmentUsageInput } from "../api/apps/get-environment-usage.ts";
import { doubleOf } from "../books/amounts/amount.ts";
import { type Forecast, readForecasts } from "../books/credits/forecast.ts";
import { type FoundUser, namedUsers } from "../books/credits/users.ts";
import {
  FIGURE_SUMS_MAX,
  FIGURE_TOTALS_MAX,
  readUsageFigures,
  type UsageFigures,
} from "../books/usage/usage-figures.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import { DayChart } from "./chart.tsx";
import { Empty, numberHead, Table, unitHead } from "./components.tsx";
import { Field } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type DashboardEnv, parseForm, textField } from "./form.ts";
import { amountText, queryString, shortAmount, Time } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { unitText } from "./unit-amount.tsx";
import { CREDITS_READ_MAX, RunsOut, TopUsers, unitsUsed } from "./usage-users.tsx";

type Used = UsageFigures["totals"]["byDay"][number];

const USAGE_DAYS_SHOWN = 30;
const SHOWN_GROUPS_MAX = 200;

const usageDate = (atMs: number): string => iso(atMs).slice(0, 10);

/** Returns the days of the form, both included; by default the last 30. */
function daysAsked(c: Context<DashboardEnv>) {
  const today = Math.floor(c.var.ctx.now() / DAY_MS) * DAY_MS;
  const form = c.req.query();
  return {
    from: textField(form, "from") ?? usageDate(today - (USAGE_DAYS_SHOWN - 1) * DAY_MS),
    to: textField(form, "to") ?? usageDate(today),
  };
}
type DaysAsked = ReturnType<typeof daysAsked>;

async function readUsage(c: Context<DashboardEnv>, days: DaysAsked) {
  const { ctx, root } = c.var;
  const { appId, mode } = ctx.environment;
  const lastMs = Date.parse(`${days.to}T00:00:00Z`);
  const to = Number.isNaN(lastMs) ? days.to : iso(lastMs + DAY_MS);
  const span = parseForm(environmentUsageInput, { mode, from: `${days.from}T00:00:00Z`, to, groupBy: "day" });
  const figures = await readUsageFigures(root, appId, span);
  const largest = figures.users.largest.slice(0, CREDITS_READ_MAX).map(({ userId }) => userId);
  const [users, forecasts] = await Promise.all([namedUsers(ctx, largest), readForecasts(ctx, largest)]);
  return { figures, users, forecasts };
}

/** Links to spans that end today. */
const SpanLinks = ({ c }: { c: Context<DashboardEnv> }) => {
  const today = Math.floor(c.var.ctx.now() / DAY_MS) * DAY_MS;
  const to = usageDate(today);
  const spans = [
    ["Today", to],
    ["7 days", usageDate(today - 6 * DAY_MS)],
    ["This month", `${to.slice(0, 8)}01`],
  ] as const;
  return (
    <p class="ranges wide">
      {spans.map(([name, from]) => (
        <a href={`${pathIn(c, "usage")}${queryString({ from, to })}`}>{name}</a>
      ))}
    </p>
  );
};

async function usageFiguresPage(c: Context<DashboardEnv>) {
  const days = daysAsked(c);
  const found = await catchRejection(() => readUsage(c, days));
  return page(
    c,
    { title: "Usage", section: "usage", rejection: found.rejection },
    <>
      <form method="get" action={pathIn(c, "usage")} class="card row">
        <Field label="From (UTC)" name="from" type="date" value={days.from} rejection={found.rejection} />
        <Field label="To, included (UTC)" name="to" type="date" value={days.to} rejection={found.rejection} />
        <button type="submit">Show</button>
        <SpanLinks c={c} />
      </form>
      {found.result !== undefined && <UsageFound c={c} {...found.result} to={days.to} />}
    </>,
  );
}

interface FoundProps {
  readonly c: Context<DashboardEnv>;
  readonly figures: UsageFigures;
  readonly users: readonly FoundUser[];
  readonly forecasts: ReadonlyMap<string, readonly Forecast[]>;
  /** The last day asked for. */
  readonly to: string;
}

const ModelName = ({ model }: Pick<Used, "model">) => <>{model ?? <span class="soft">none</span>}</>;

const UsageFound = ({ c, figures, users, forecasts, to }: FoundProps) => {
  const { byDay, byModel, byEvent, byDayAndModel, from } = figures.totals;
  if (byDay.length === 0) {
    return (
      <section class="card">
        <Empty icon="overview" title="No usage in these days">
          Usage appears here within minutes after it is recorded.
        </Empty>
      </section>
    );
  }
  const dayCount = (Date.parse(to) - Date.parse(from)) / DAY_MS + 1;
  const dates = Array.from({ length: dayCount }, (_, index) => usageDate(Date.parse(from) + index * DAY_MS));
  const onDay = new Map(byDay.map((used) => [used.day, used]));
  const charts: readonly (readonly [label: string, of: (used: Used) => number])[] = [
    ["Events", ({ events }) => events],
    ...unitsUsed(byDay).map(
      (unit) => [unitText(c.var.unitNames, unit), ({ quantities }: Used) => doubleOf(quantities[unit])] as const,
    ),
  ];
  const valueOn = (date: string, of: (used: Used) => number) => {
    const used = onDay.get(date);
    return used === undefined ? 0 : of(used);
  };
  return (
    <>
      <LeftOut of={figures.users} lists="The lists of users" max={FIGURE_SUMS_MAX} />
      <RunsOut c={c} forecasts={forecasts} users={users} />
      <TopUsers c={c} largest={figures.users.largest} users={users} />
      <LeftOut of={figures.totals} lists="The figures of all users" max={FIGURE_TOTALS_MAX} />
      <section class="two" aria-label="Usage by day">
        {charts.map(([label, of]) => (
          <div class="card">
            <DayChart
              label={label}
              total={shortAmount(byDay.reduce((sum, used) => sum + of(used), 0))}
              series={[{ name: label, days: dates.map((date) => ({ date, value: valueOn(date, of) })) }]}
            />
          </div>
        ))}
      </section>
      <div class="two">
        <Grouped title="By model" heads={["Model"]} groups={byModel} cellsOf={(used) => [<ModelName {...used} />]} />
        <Grouped title="By event" heads={["Event"]} groups={byEvent} cellsOf={({ event }) => [<code>{event}</code>]} />
      </div>
      <Grouped
        title="By day and model"
        heads={["Day", "Model"]}
        groups={byDayAndModel}
        cellsOf={(used) => [used.day, <ModelName {...used} />]}
      />
      <p class="soft">
        Days are in UTC. These figures contain everything received until <Time at={figures.upTo} />, and a part of later
        usage.
      </p>
    </>
  );
};

interface LeftOutProps {
  readonly of: Pick<UsageFigures["users"], "isTruncated" | "isIncomplete" | "from">;
  readonly lists: string;
  readonly max: number;
}

/** Says which usage some lists leave out. */
const LeftOut = ({ of: { isTruncated, isIncomplete, from }, lists, max }: LeftOutProps) =>
  isTruncated && (
    <p class="card">
      {isIncomplete
        ? `${lists} have only a part of ${from}, because there is more usage than this page adds up.`
        : `${lists} begin on ${from}, because there is more usage than this page adds up.`}{" "}
      It adds up {amountText(max)} sums of a day, an event and a model. The API adds up 2,000,000:{" "}
      <code>GET /api/v1/admin/apps/…/usage</code>.
    </p>
  );

interface GroupedProps {
  readonly title: string;
  readonly heads: readonly string[];
  readonly groups: readonly Used[];
  readonly cellsOf: (used: Used) => readonly Child[];
}

const Grouped = ({ title, heads, groups, cellsOf }: GroupedProps) => {
  const units = unitsUsed(groups);
  return (
    <section class="card">
      <h2>{title}</h2>
      <Table
        label={title}
        head={[...heads, numberHead("Events"), ...units.map(unitHead)]}
        empty=""
        csv={title.toLowerCase().replaceAll(" ", "-")}
        rows={groups
          .slice(0, SHOWN_GROUPS_MAX)
          .map((used) => [
            ...cellsOf(used),
            amountText(used.events),
            ...units.map((unit) => amountText(used.quantities[unit] ?? 0)),
          ])}
      />
      {groups.length > SHOWN_GROUPS_MAX && (
        <p class="soft">
          The first {SHOWN_GROUPS_MAX} of {amountText(groups.length)}.
        </p>
      )}
    </section>
  );
};

export const usagePages = createDashboardRoutes().get("/usage", usageFiguresPage);
