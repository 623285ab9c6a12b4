import { type Child, useContext } from "hono/jsx";
import { doubleOf } from "../books/amounts/amount.ts";
import { type Forecast, readForecasts } from "../books/credits/forecast.ts";
import { type FoundUser, namedUsers } from "../books/credits/users.ts";
import { FIGURE_SUMS_MAX, FIGURE_TOTALS_MAX, type UsageFigures } from "../books/usage/usage-figures.ts";
import { DayChart } from "./chart.tsx";
import { Empty, type Tab, Tabs } from "./components.tsx";
import { createDashboardRoutes } from "./form.ts";
import { amountText, shortAmount, Time } from "./format.tsx";
import { numberHead, unitHead } from "./table.tsx";
import { BareAmount, UnitsContext, unitText } from "./unit-amount.tsx";
import { dailyValues, groupTab, LeftOut, type Used, usageDaysPage } from "./usage-days.tsx";
import { CREDITS_READ_MAX, RunsOut, TopUsers, unitsUsed } from "./usage-users.tsx";

interface FoundProps {
  readonly figures: UsageFigures;
  readonly users: readonly FoundUser[];
  readonly forecasts: ReadonlyMap<string, readonly Forecast[]>;
  /** The last day asked for. */
  readonly to: string;
}

const ModelName = ({ model }: Pick<Used, "model">) => <>{model ?? <span class="soft">none</span>}</>;

const UsageFound = ({ figures, users, forecasts, to }: FoundProps) => {
  const units = useContext(UnitsContext);
  const { byDay, byModel, byEvent, byDayAndModel } = figures.totals;
  if (byDay.length === 0) {
    return (
      <section class="card">
        <Empty icon="overview" title="No usage in these days">
          Usage appears here within minutes after it is recorded.
        </Empty>
      </section>
    );
  }
  const daysOf = dailyValues(figures.totals, to);
  const chart = (id: string, label: string, of: (used: Used) => number): Tab => {
    const days = daysOf(of);
    const total = shortAmount(byDay.reduce((sum, used) => sum + of(used), 0));
    return {
      id: `chart-${id}`,
      name: label,
      children: <DayChart label={label} total={total} series={[{ name: label, days }]} />,
    };
  };
  const charts = [
    chart("events", "Events", ({ events }) => events),
    ...unitsUsed(byDay).map((unit) =>
      chart(unit, unitText(units, unit), ({ quantities }) => doubleOf(quantities[unit])),
    ),
  ];
  return (
    <>
      <LeftOut of={figures.users} lists="The lists of users" max={FIGURE_SUMS_MAX} />
      <RunsOut forecasts={forecasts} users={users} />
      <TopUsers largest={figures.users.largest} users={users} />
      <LeftOut of={figures.totals} lists="The figures of all users" max={FIGURE_TOTALS_MAX} />
      <section class="card" aria-label="Usage by day">
        <Tabs label="Figure" tabs={charts} />
      </section>
      <Tabs
        label="Usage by"
        tabs={[
          usedBy("By model", ["Model"], byModel, (used) => [<ModelName {...used} />]),
          usedBy("By event", ["Event"], byEvent, ({ event }) => [<code>{event}</code>]),
          usedBy("By day and model", ["Day", "Model"], byDayAndModel, (used) => [used.day, <ModelName {...used} />]),
        ]}
      />
      <p class="soft">
        Days are in UTC. Amounts are those that events named or were priced at: of several units in one event, one pays,
        and some may not have been covered. These figures contain everything received until <Time at={figures.upTo} />,
        and a part of later usage.
      </p>
    </>
  );
};

/** Returns the tab of a table of groups. */
function usedBy(
  title: string,
  heads: readonly string[],
  groups: readonly Used[],
  nameOf: (used: Used) => readonly Child[],
): Tab {
  const units = unitsUsed(groups);
  return groupTab({
    title,
    head: [...heads, numberHead("Events"), ...units.map(unitHead)],
    groups,
    cellsOf: (used) => [
      ...nameOf(used),
      amountText(used.events),
      ...units.map((unit) => <BareAmount of={used.quantities[unit] ?? 0} unit={unit} />),
    ],
  });
}

export const usagePages = createDashboardRoutes().get("/usage", (c) =>
  usageDaysPage(c, "Usage", async (figures, to) => {
    const largest = figures.users.largest.slice(0, CREDITS_READ_MAX).map(({ userId }) => userId);
    const { ctx } = c.var;
    const [users, forecasts] = await Promise.all([namedUsers(ctx, largest), readForecasts(ctx, largest)]);
    return <UsageFound figures={figures} users={users} forecasts={forecasts} to={to} />;
  }),
);
