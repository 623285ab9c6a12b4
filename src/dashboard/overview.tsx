import type { Context } from "hono";
import { UNITS } from "../books/amounts/amount.ts";
import { DayChart, type Series } from "./chart.tsx";
import type { Figure } from "./figures/read.ts";
import { AHEAD_DAYS } from "./figures/walk-business.ts";
import { figurePath } from "./figures.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./form.ts";
import { amountText, queryString, shortAmount, Updated } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { Attention } from "./overview-attention.tsx";
import { FirstSteps, Packs } from "./overview-business.tsx";
import { Equation } from "./overview-equation.tsx";
import { Headline } from "./overview-figures.tsx";
import { ClosedMonth } from "./overview-statement.tsx";
import { inSpan, type Overview, readOverview, sumOf, type TwoSpans } from "./read-overview.ts";
import { refusalsPath } from "./refusals.tsx";

const RANGES = [7, 30, 90] as const;

async function overviewPage(c: Context<DashboardEnv>) {
  const days = RANGES.find((range) => String(range) === c.req.query("days")) ?? 30;
  const isCompared = c.req.query("compare") === "before";
  const overview = await readOverview(c, days);
  const { granted, spent, business, outstanding } = overview;
  const users = outstanding?.users ?? business?.users ?? 0;
  const isEmpty = users === 0 && [granted, spent].every(({ now }) => now.every((figure) => figure.unit === null));
  return page(
    c,
    { title: "Overview", section: "overview", actions: <Ranges c={c} days={days} isCompared={isCompared} /> },
    <>
      {isEmpty && <FirstSteps c={c} />}
      <Attention c={c} overview={overview} />
      <Headline c={c} overview={overview} />
      <Charts c={c} overview={overview} isCompared={isCompared} />
      <div class="two">
        <Equation c={c} overview={overview} />
        <ClosedMonth c={c} overview={overview} />
      </div>
      <Packs c={c} business={business} packs={overview.packs} from={overview.past} days={days} />
      <Refusals c={c} overview={overview} />
      <p class="soft">
        Days are in UTC. Figures by day are approximate: they are written a few seconds after each request and can miss
        some when a server process ends. Balances and ledgers are exact.
      </p>
    </>,
  );
}

const Ranges = ({ c, days, isCompared }: { c: Context<DashboardEnv>; days: number; isCompared: boolean }) => {
  const link = (range: number, compare: boolean) =>
    `${pathIn(c, "overview")}${queryString({ days: String(range), compare: compare ? "before" : undefined })}`;
  return (
    <div class="ranges">
      {RANGES.map((range) => (
        <a href={link(range, isCompared)} aria-current={range === days ? "page" : undefined}>
          {range} days
        </a>
      ))}
      <a class="button quiet small" href={link(days, !isCompared)}>
        {isCompared ? "Stop comparing" : "Compare with before"}
      </a>
    </div>
  );
};

interface OverviewProps {
  readonly c: Context<DashboardEnv>;
  readonly overview: Overview;
}

/** Shows granted and spent amounts by day, in a chart for each unit, and upcoming expiries. */
const Charts = ({ c, overview, isCompared }: OverviewProps & { isCompared: boolean }) => {
  const { granted, spent, expiring, business } = overview;
  const units = UNITS.filter((unit) =>
    [...granted.now, ...spent.now].some((figure) => figure.unit === unit && sumOf(figure) > 0),
  );
  if (units.length === 0 && expiring.length === 0) return null;
  const seriesOf = (name: string, kind: "granted" | "spent", { now }: TwoSpans, unit: string): Series => ({
    name,
    days: inSpan(now, unit, overview),
    hrefOf: (date) => pathIn(c, figurePath(kind, { unit, from: date, to: date })),
  });
  return (
    <section class="two" aria-label="Credits by day">
      {units.map((unit) => {
        const series = [seriesOf("Granted", "granted", granted, unit), seriesOf("Spent", "spent", spent, unit)];
        const before = { name: "Spent before", days: inSpan(spent.before, unit, overview) };
        const [sold, used] = series.map((each) => shortAmount(sumOf(each)));
        return (
          <div class="card">
            <DayChart
              label={`Granted and spent, ${unit}`}
              total={`${sold} granted, ${used} spent`}
              series={isCompared ? [...series, before] : series}
            />
          </div>
        );
      })}
      {expiring.map((figure) => (
        <div class="card">
          <DayChart
            label={`Expiring in ${AHEAD_DAYS} days, ${figure.unit}`}
            href={pathIn(c, figurePath("expiring", { unit: figure.unit, ...overviewSpanOf(figure) }))}
            total={shortAmount(sumOf(figure))}
            series={[
              {
                name: "Expiring",
                days: figure.days,
                hrefOf: (date) => pathIn(c, figurePath("expiring", { unit: figure.unit, from: date, to: date })),
              },
            ]}
          />
          {business !== null && <Updated at={business.finishedAt} />}
        </div>
      ))}
    </section>
  );
};

const overviewSpanOf = ({ days }: Pick<Figure, "days">) => ({ from: days[0]?.date ?? "", to: days.at(-1)?.date ?? "" });

/** Shows the refusals, and the exports of people. */
const Refusals = ({ c, overview }: OverviewProps) => {
  const { days, shortages, refused, minted, opened, links } = overview;
  const cards: readonly (readonly [label: string, figures: readonly Figure[], path: string | undefined])[] = [
    ["Insufficient credits (402)", shortages.now, refusalsPath("shortage")],
    ["Refused grants", refused, refusalsPath("failed_grant")],
    ["Export links created", minted, figurePath("minted", overviewSpanOf(minted[0] ?? { days: [] }))],
    ["Export links opened", opened, figurePath("opened", overviewSpanOf(opened[0] ?? { days: [] }))],
    // A refused link leaves only its event.
    ["Identity links refused", links, undefined],
  ];
  return (
    <section aria-label="Refusals and exports">
      <h2>Refusals and exports, last {days} days</h2>
      <div class="cards">
        {cards.flatMap(([label, figures, path]) =>
          figures.map((figure) => {
            const sum = sumOf(figure);
            const href = path === undefined || sum === 0 ? undefined : pathIn(c, path);
            const total = sum === 0 ? "0" : amountText(sum);
            return (
              <div class="card">
                <DayChart label={label} href={href} total={total} series={[{ name: label, days: figure.days }]} />
              </div>
            );
          }),
        )}
      </div>
      <p class="soft">
        An identity link is refused, and its event kept, when a publishable key sends it and the other id is a user, is
        linked already, or neither id is known as a user's. Your server can link them with a secret key.
      </p>
    </section>
  );
};

export const overviewRoutes = createDashboardRoutes().get("/overview", overviewPage);
