import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { environmentUsageInput } from "../api/apps/get-environment-usage.ts";
import { doubleOf } from "../books/amounts/amount.ts";
import {
  FIGURE_SUMS_MAX,
  FIGURE_TOTALS_MAX,
  readUsageFigures,
  type UsageFigures,
} from "../books/usage/usage-figures.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import { DayChart } from "./chart.tsx";
import { numberHead, Table } from "./components.tsx";
import { Field } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type DashboardEnv, parseForm, textField } from "./form.ts";
import { FormCard } from "./form-card.tsx";
import { amountText, queryString, shortAmount, Time } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { unitText } from "./unit-amount.tsx";

type Margin = UsageFigures["totals"]["byDay"][number];

const MARGIN_DAYS = 30;
const SHOWN_MARGINS_MAX = 200;

const dayText = (atMs: number): string => iso(atMs).slice(0, 10);

/** Returns the days of the form, both included; by default the last 30. */
function spanAsked(c: Context<DashboardEnv>) {
  const today = Math.floor(c.var.ctx.now() / DAY_MS) * DAY_MS;
  const form = c.req.query();
  return {
    from: textField(form, "from") ?? dayText(today - (MARGIN_DAYS - 1) * DAY_MS),
    to: textField(form, "to") ?? dayText(today),
  };
}

async function readMargin(c: Context<DashboardEnv>, days: ReturnType<typeof spanAsked>) {
  const { appId, mode } = c.var.ctx.environment;
  const lastMs = Date.parse(`${days.to}T00:00:00Z`);
  const to = Number.isNaN(lastMs) ? days.to : iso(lastMs + DAY_MS);
  const span = parseForm(environmentUsageInput, { mode, from: `${days.from}T00:00:00Z`, to, groupBy: "day" });
  return readUsageFigures(c.var.root, appId, span);
}

interface MarginTableProps {
  readonly c: Context<DashboardEnv>;
  readonly title: string;
  readonly head: string;
  readonly rows: readonly (readonly [name: Child, margin: Margin])[];
}

/** Debits of `cents` have the application's own name of this unit. Costs are always cents of money. */
const unitOfDebits = (c: Context<DashboardEnv>): string => unitText(c.var.unitNames, "cents");

/** Shows debits and costs beside each other. They are not subtracted, because they may be of different currencies (PR8). */
const MarginTable = ({ c, title, head, rows }: MarginTableProps) => (
  <section class="card">
    <h2>{title}</h2>
    <Table
      label={title}
      csv={`costs-${title.toLowerCase().replaceAll(" ", "-")}`}
      head={[
        ...[head, numberHead("Events"), numberHead(`Priced in ${unitOfDebits(c)}`)],
        numberHead(`Debited, ${unitOfDebits(c)}`),
        ...[numberHead("Your cost, cents"), numberHead("Without a cost")],
      ]}
      empty="No usage in these days."
      rows={rows
        .slice(0, SHOWN_MARGINS_MAX)
        .map(([name, { events, quantities, debitedCents, cost, withoutCost }]) => [
          name,
          amountText(events),
          amountText(quantities.cents ?? 0),
          amountText(debitedCents),
          cost === null ? "unknown" : amountText(cost),
          amountText(withoutCost),
        ])}
    />
    {rows.length > SHOWN_MARGINS_MAX && (
      <p class="soft">
        The first {SHOWN_MARGINS_MAX} of {amountText(rows.length)}.
      </p>
    )}
  </section>
);

const MarginChart = ({ c, byDay }: { c: Context<DashboardEnv>; byDay: readonly Margin[] }) => {
  const days = byDay.toSorted((a, b) => (a.day < b.day ? -1 : 1));
  const series = [
    ["Debited", ({ debitedCents }: Margin) => doubleOf(debitedCents)],
    ["Your cost", ({ cost }: Margin) => doubleOf(cost ?? 0)],
  ] as const;
  return (
    <section class="card">
      <DayChart
        label={`Debited, in ${unitOfDebits(c)}, and cost, in cents`}
        total={shortAmount(days.reduce((sum, { debitedCents }) => sum + doubleOf(debitedCents), 0))}
        series={series.map(([name, of]) => ({ name, days: days.map((day) => ({ date: day.day, value: of(day) })) }))}
      />
    </section>
  );
};

const LeftOutDays = ({ of, lists }: { of: UsageFigures["users"] | UsageFigures["totals"]; lists: string }) =>
  of.isTruncated && (
    <p class="card">
      {lists} {of.isIncomplete ? `have only a part of ${of.from}` : `begin on ${of.from}`}: these days have too much
      usage for this page. Ask for fewer days.
    </p>
  );

const MarginFound = ({ c, figures: { totals, users, upTo } }: { c: Context<DashboardEnv>; figures: UsageFigures }) => (
  <>
    <LeftOutDays of={totals} lists={`The figures by day and model (at most ${amountText(FIGURE_TOTALS_MAX)} sums)`} />
    <MarginChart c={c} byDay={totals.byDay} />
    <MarginTable
      c={c}
      title="By day"
      head="Day"
      rows={totals.byDay.toSorted((a, b) => (a.day < b.day ? 1 : -1)).map((each) => [each.day, each])}
    />
    <MarginTable
      c={c}
      title="By model"
      head="Model"
      rows={totals.byModel.map((each) => [each.model ?? "none", each])}
    />
    <LeftOutDays of={users} lists={`The figures by user (at most ${amountText(FIGURE_SUMS_MAX)} sums)`} />
    <MarginTable
      c={c}
      title="By user"
      head="User"
      rows={users.largest.map((each) => [
        <a href={`${pathIn(c, "users")}${queryString({ userId: each.userId })}`}>{each.userId}</a>,
        each,
      ])}
    />
    <p class="soft">
      Debited is what balances in {unitOfDebits(c)} paid. Your cost comes from the <code>costs</code> of the version
      that priced each event. Purser does not subtract them, because costs are in cents of your own currency. Days are
      in UTC. These figures contain everything received until <Time at={upTo} />.
    </p>
  </>
);

async function marginPage(c: Context<DashboardEnv>) {
  const days = spanAsked(c);
  const found = await catchRejection(() => readMargin(c, days));
  return page(
    c,
    { title: "Costs and debits", section: "prices", rejection: found.rejection },
    <>
      <FormCard c={c} action="prices/margin" method="get" button="Show" form={days} rejection={found.rejection}>
        <Field label="From (UTC)" name="from" type="date" />
        <Field label="To, included (UTC)" name="to" type="date" />
      </FormCard>
      {found.result !== undefined && <MarginFound c={c} figures={found.result} />}
    </>,
  );
}

export const marginRoutes = createDashboardRoutes().get("/prices/margin", marginPage);
