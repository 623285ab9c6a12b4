import { type Child, useContext } from "hono/jsx";
import { doubleOf } from "../books/amounts/amount.ts";
import { FIGURE_SUMS_MAX, FIGURE_TOTALS_MAX, type UsageFigures } from "../books/usage/usage-figures.ts";
import { DayChart } from "./chart.tsx";
import { Tabs } from "./components.tsx";
import { createDashboardRoutes } from "./form.ts";
import { amountText, shortAmount, Time } from "./format.tsx";
import { UserLink } from "./links.tsx";
import { sumDayValues } from "./read-overview.ts";
import { numberHead } from "./table.tsx";
import { UnitsContext, unitText } from "./unit-amount.tsx";
import { dailyValues, groupTab, LeftOut, type Used, usageDaysPage } from "./usage-days.tsx";

type MarginRow = readonly [name: Child, margin: Used];

/** Debits of `cents` have the application's own name of this unit. Costs are always cents of money. */
const useUnitOfDebits = (): string => unitText(useContext(UnitsContext), "cents");

/** Shows debits and costs beside each other. They are not subtracted, because they may be of different currencies (PR8). */
const marginTab = (unit: string, title: string, head: string, groups: readonly MarginRow[]) =>
  groupTab({
    title,
    head: [
      head,
      ...[numberHead("Events"), numberHead(`Priced in ${unit}`), numberHead(`Debited, ${unit}`)],
      ...[numberHead("Your cost, cents"), numberHead("Without a cost")],
    ],
    groups,
    cellsOf: ([name, { events, quantities, debitedCents, cost, withoutCost }]) => [
      name,
      amountText(events),
      amountText(quantities.cents ?? 0),
      amountText(debitedCents),
      cost === null ? "unknown" : amountText(cost),
      amountText(withoutCost),
    ],
  });

const MarginChart = ({ totals, to }: Pick<MarginFoundProps, "to"> & Pick<UsageFigures, "totals">) => {
  const unit = useUnitOfDebits();
  const daysOf = dailyValues(totals, to);
  const debited = { name: "Debited", days: daysOf(({ debitedCents }) => doubleOf(debitedCents)) };
  const cost = { name: "Your cost", days: daysOf((used) => doubleOf(used.cost ?? 0)) };
  return (
    <section class="card">
      <DayChart
        label={`Debited, in ${unit}, and cost, in cents`}
        total={`${shortAmount(sumDayValues(debited))} debited, ${shortAmount(sumDayValues(cost))} cost`}
        series={[debited, cost]}
      />
    </section>
  );
};

interface MarginFoundProps {
  readonly figures: UsageFigures;
  /** The last day asked for. */
  readonly to: string;
}

const MarginFound = ({ figures: { totals, users, upTo }, to }: MarginFoundProps) => {
  const unit = useUnitOfDebits();
  return (
    <>
      <LeftOut of={totals} lists="The figures by day and model" max={FIGURE_TOTALS_MAX} />
      <MarginChart totals={totals} to={to} />
      <LeftOut of={users} lists="The figures by user" max={FIGURE_SUMS_MAX} />
      <Tabs
        label="Costs by"
        tabs={[
          marginTab(
            unit,
            "By day",
            "Day",
            totals.byDay.toSorted((a, b) => (a.day < b.day ? 1 : -1)).map((each) => [each.day, each]),
          ),
          marginTab(
            unit,
            "By model",
            "Model",
            totals.byModel.map((each) => [each.model ?? "none", each]),
          ),
          marginTab(
            unit,
            "By user",
            "User",
            users.largest.map((each) => [<UserLink id={each.userId} />, each]),
          ),
        ]}
      />
      <p class="soft">
        Debited is what balances in {unit} paid. Your cost comes from the <code>costs</code> of the version that priced
        each event. Purser does not subtract them, because costs are in cents of your own currency. Days are in UTC.
        These figures contain everything received until <Time at={upTo} />.
      </p>
    </>
  );
};

export const marginRoutes = createDashboardRoutes().get("/prices/margin", (c) =>
  usageDaysPage(c, "Costs and debits", (figures, to) => <MarginFound figures={figures} to={to} />),
);
