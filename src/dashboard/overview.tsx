import { useContext } from "hono/jsx";
import { UNITS } from "../books/amounts/amount.ts";
import { AppLink } from "./app-link.tsx";
import { DayChart, type Series } from "./chart.tsx";
import { Amounts, Card, type Tab, Tabs } from "./components.tsx";
import { AHEAD_DAYS } from "./figures/business.ts";
import type { Figure, PackFigure } from "./figures/read.ts";
import { type FigureName, figurePath } from "./figures.tsx";
import { createDashboardRoutes, type PageContext } from "./form.ts";
import { amountText, queryString, shortAmount, Updated } from "./format.tsx";
import { page } from "./layout.tsx";
import { rejectionsPath } from "./links.tsx";
import { Attention } from "./overview-attention.tsx";
import { Reconciliation } from "./overview-equation.tsx";
import { Headline } from "./overview-figures.tsx";
import {
  inSpan,
  type Overview,
  type OverviewProps,
  readOverview,
  spanOf,
  sumDayValues,
  type TwoSpans,
} from "./read-overview.ts";
import { numberHead, Table } from "./table.tsx";
import { UnitsContext, unitText } from "./unit-amount.tsx";

const RANGES = [7, 30, 90] as const;

async function overviewPage(c: PageContext) {
  const days = RANGES.find((range) => String(range) === c.req.query("days")) ?? 30;
  const isCompared = c.req.query("compare") === "before";
  const overview = await readOverview(c, days);
  const { granted, spent, business, outstanding } = overview;
  const users = outstanding?.users ?? business?.users ?? 0;
  const isEmpty = users === 0 && [granted, spent].every(({ now }) => now.every((figure) => figure.unit === null));
  return page(
    c,
    { title: "Overview", section: "overview", actions: <Ranges days={days} isCompared={isCompared} /> },
    <>
      {isEmpty && <FirstSteps />}
      <Attention overview={overview} />
      <Headline overview={overview} />
      <ByDay overview={overview} isCompared={isCompared} />
      <Reconciliation overview={overview} />
      <Packs overview={overview} />
      <p class="soft">Days are in UTC. Figures by day are approximate. Money, balances and statements are exact.</p>
    </>,
  );
}

/** Shows what to do when there is nothing yet. */
const FirstSteps = () => (
  <Card title="First steps" id="first-steps">
    <ol class="steps">
      <li>
        <AppLink to="packs/new">Create a pack</AppLink>: what a grant issues, and what it pays for.
      </li>
      <li>
        <AppLink to="keys">Create a secret key</AppLink> for your backend.
      </li>
      <li>
        <AppLink to="users/grant">Grant the pack to a user</AppLink>, here or by <code>POST /api/v1/credits/grant</code>
        .
      </li>
      <li>
        Record usage by <code>POST /api/v1/usage/events</code>. <a href="/docs">The reference</a> has every call.
      </li>
    </ol>
  </Card>
);

const Ranges = ({ days, isCompared }: { days: number; isCompared: boolean }) => {
  const link = (range: number, compare: boolean) =>
    `overview${queryString({ days: String(range), compare: compare ? "before" : undefined })}`;
  return (
    <div class="ranges">
      {RANGES.map((range) => (
        <AppLink to={link(range, isCompared)} aria-current={range === days ? "page" : undefined}>
          {range} days
        </AppLink>
      ))}
      <AppLink class="button quiet small" to={link(days, !isCompared)}>
        {isCompared ? "Stop comparing" : "Compare"}
      </AppLink>
    </div>
  );
};

/** Shows a chart of one figure by day: the amounts of a unit that were granted and spent or will expire, or a count of events. */
const ByDay = ({ overview, isCompared }: OverviewProps & { isCompared: boolean }) => {
  const { granted, spent, expiring, business } = overview;
  const shown = useContext(UnitsContext);
  const units = UNITS.filter((unit) =>
    [...granted.now, ...spent.now].some((figure) => figure.unit === unit && sumDayValues(figure) > 0),
  );
  /** On how many days credits of a unit were granted or spent. */
  const activeDays = (unit: string) =>
    [granted, spent].flatMap(({ now }) => inSpan(now, unit, overview)).filter(({ value }) => value > 0).length;
  const seriesOf = (name: string, kind: "granted" | "spent", { now }: TwoSpans, unit: string): Series => ({
    name,
    days: inSpan(now, unit, overview),
    pathOf: (date) => figurePath(kind, { unit, from: date, to: date }),
  });
  const ofUnits = units
    .toSorted((a, b) => activeDays(b) - activeDays(a))
    .map((unit): Tab => {
      const series = [seriesOf("Granted", "granted", granted, unit), seriesOf("Spent", "spent", spent, unit)];
      const before = { name: "Spent before", days: inSpan(spent.before, unit, overview) };
      const [grantedSum, spentSum] = series.map((days) => shortAmount(sumDayValues(days)));
      const chart = (
        <DayChart
          label={`Granted and spent, ${unitText(shown, unit)}`}
          total={`${grantedSum} granted, ${spentSum} spent`}
          series={isCompared ? [...series, before] : series}
        />
      );
      return { id: `chart-${unit}`, name: unitText(shown, unit), children: chart };
    });
  const ofExpiries = expiring.map((figure): Tab => {
    const { unit, days } = figure;
    const pathOf = (date: string) => figurePath("expiring", { unit, from: date, to: date });
    const chart = (
      <>
        <DayChart
          label={`Expiring in ${AHEAD_DAYS} days, ${unitText(shown, unit)}`}
          to={figurePath("expiring", { unit, ...daysOfFigure(figure) })}
          total={shortAmount(sumDayValues(figure))}
          series={[{ name: "Expiring", days, pathOf }]}
        />
        {business !== null && <Updated at={business.finishedAt} />}
      </>
    );
    return { id: `chart-expiring-${unit}`, name: `expiring ${unitText(shown, unit)}`, children: chart };
  });
  const tabs = [...ofUnits, ...ofExpiries, ...countTabs(overview)];
  if (tabs.length === 0) return null;
  return (
    <section class="card" id="by-day">
      <h2>By day, last {overview.days} days</h2>
      <Tabs label="Figure" tabs={tabs} />
    </section>
  );
};

const daysOfFigure = ({ days }: Pick<Figure, "days">) => ({ from: days[0]?.date ?? "", to: days.at(-1)?.date ?? "" });

const OVERVIEW_PACKS_MAX = 50;

/** Shows what was granted and spent of each pack, and what is outstanding. */
const Packs = ({ overview }: OverviewProps) => {
  const { business, days } = overview;
  const { figures: packs, isPartial } = overview.packs;
  const outstanding = business?.byPack ?? [];
  const ids = [...new Set([...packs, ...outstanding].map(({ packId }) => packId))];
  if (ids.length === 0) return null;
  const figuresOf = (kind: PackFigure["kind"], packId: string) =>
    packs.filter((figure) => figure.kind === kind && figure.packId === packId);
  const linkToFigure = (figure: FigureName, packId: string) => (unit: string) =>
    figurePath(figure, { unit, packId, ...spanOf(overview) });
  return (
    <section class="card" id="packs">
      <div class="card-head">
        <h2>By pack</h2>
        {business !== null && <Updated at={business.finishedAt} what="Outstanding" />}
      </div>
      <Table
        label="By pack"
        csv="by-pack"
        head={[
          "Pack",
          numberHead(`Granted, ${days} days`),
          numberHead(`Spent, ${days} days`),
          numberHead("Outstanding"),
        ]}
        empty=""
        rows={ids
          .slice(0, OVERVIEW_PACKS_MAX)
          .map((packId) => [
            <AppLink to={`packs/${packId}`}>
              {[...packs, ...outstanding].find((each) => each.packId === packId)?.packName ?? packId}
            </AppLink>,
            <Amounts of={figuresOf("granted_of", packId)} pathOf={linkToFigure("granted", packId)} />,
            <Amounts of={figuresOf("spent_of", packId)} pathOf={linkToFigure("spent", packId)} />,
            business === null ? (
              <span class="soft num">not computed yet</span>
            ) : (
              <Amounts of={outstanding.find((each) => each.packId === packId)?.amounts ?? []} />
            ),
          ])}
      />
      {(ids.length > OVERVIEW_PACKS_MAX || business?.isPartial === true) && (
        <p class="soft">Not all packs are shown.</p>
      )}
      {isPartial && (
        <p class="soft">More was granted and spent than is added up here. Choose fewer days, or see a statement.</p>
      )}
    </section>
  );
};

const ABOUT_LINKS =
  "A publishable or relay key may link only the id of a device that is no user and not linked yet, and only to an id that is a user's or not a device's. Other links are rejected, and their events kept. Your server can link any ids with a secret key.";

/** Returns the tabs of rejections and exports that happened. */
function countTabs({ shortages, limited, refused, minted, opened, links }: Overview): readonly Tab[] {
  const counts: readonly (readonly [label: string, figures: readonly Figure[], path: string | undefined])[] = [
    ["Insufficient credits (402)", shortages.now, rejectionsPath("shortage")],
    ["Usage limit reached (429)", limited, rejectionsPath("usage_limit")],
    ["Rejected grants", refused, rejectionsPath("failed_grant")],
    ["Export links created", minted, figurePath("minted", daysOfFigure(minted[0] ?? { days: [] }))],
    ["Export links opened", opened, figurePath("opened", daysOfFigure(opened[0] ?? { days: [] }))],
    // A rejected link leaves only its event.
    ["Identity links rejected", links, undefined],
  ];
  return counts.flatMap(([label, figures, to]) =>
    figures.flatMap((figure): Tab[] => {
      const sum = sumDayValues(figure);
      if (sum === 0) return [];
      const total = amountText(sum);
      const chart = (
        <>
          <DayChart label={label} to={to} total={total} series={[{ name: label, days: figure.days }]} />
          {figures === links && <p class="soft">{ABOUT_LINKS}</p>}
        </>
      );
      return [{ id: label.replaceAll(/[^a-z]+/gi, "-").toLowerCase(), name: `${label}: ${total}`, children: chart }];
    }),
  );
}

export const overviewRoutes = createDashboardRoutes().get("/overview", overviewPage);
