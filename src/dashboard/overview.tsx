import type { Context } from "hono";
import { UNITS } from "../books/amounts/amount.ts";
import { DAY_MS } from "../lib/time.ts";
import { readLag } from "../webhooks/delete-old.ts";
import { Bars, type Day } from "./chart.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { type Figure, readActivity, readPacks } from "./figures/read.ts";
import { readBusiness } from "./figures/read-business.ts";
import { figurePath } from "./figures.tsx";
import { query } from "./format.ts";
import { page, pathIn } from "./layout.tsx";
import { ActiveUsers, FirstSteps, Outstanding, Packs, Webhooks } from "./overview-business.tsx";
import { refusalsPath } from "./refusals.tsx";

const RANGES = [7, 30, 90] as const;
/** What lies ahead is shown for this many days. */
const AHEAD_DAYS = 30;

const NAMES: Readonly<Record<Figure["kind"] | "expired", string>> = {
  granted: "Granted",
  spent: "Spent",
  refunded: "Refunded",
  expired: "Expired",
  expiring: "Expiring",
  failed_grant: "Refused grants",
  shortage: "Insufficient credits (402)",
  minted: "Export links created",
  opened: "Export links opened",
  refused_claim: "Links by publishable keys that were refused",
};

/** Where a figure, or a day of it, leads: the list of what it is made up of. */
type Lead = (name: Figure["kind"] | "expired", unit: string | null, from: string, to: string) => string | undefined;

const leadIn =
  (c: Context<DashboardEnv>): Lead =>
  (name, unit, from, to) => {
    // Nothing is stored of such a link but its event.
    if (name === "refused_claim") return undefined;
    const isRefusal = name === "shortage" || name === "failed_grant";
    return pathIn(c, isRefusal ? refusalsPath(name) : figurePath(name, { unit, from, to }));
  };

interface CardProps {
  readonly name: Figure["kind"] | "expired";
  readonly unit: string | null;
  readonly days: readonly Day[];
  readonly kind: string;
  readonly lead: Lead;
}

const Card = ({ name, unit, days, kind, lead }: CardProps) => (
  <div class="card">
    <Bars
      label={unit === null ? NAMES[name] : `${NAMES[name]}, ${unit}`}
      kind={kind}
      days={days}
      href={lead(name, unit, days[0]?.date ?? "", days.at(-1)?.date ?? "")}
      hrefOf={(date) => lead(name, unit, date, date)}
    />
  </div>
);

const cards = (figures: readonly Figure[], kind: string, lead: Lead) =>
  figures.map(({ kind: name, unit, days }) => <Card name={name} unit={unit} days={days} kind={kind} lead={lead} />);

async function readOverview(c: Context<DashboardEnv>, days: number) {
  const { ctx } = c.var;
  const today = ctx.now();
  const past = today - (days - 1) * DAY_MS;
  const [granted, spent, refunded, expiring, refused, shortages, minted, opened, links, business, packs, lag] =
    await Promise.all([
      readActivity(ctx, "granted", past, days),
      readActivity(ctx, "spent", past, days),
      readActivity(ctx, "refunded", past, days),
      readActivity(ctx, "expiring", today, AHEAD_DAYS),
      readActivity(ctx, "failed_grant", past, days),
      readActivity(ctx, "shortage", past, days),
      readActivity(ctx, "minted", past, days),
      readActivity(ctx, "opened", past, days),
      readActivity(ctx, "refused_claim", past, days),
      readBusiness(ctx),
      readPacks(ctx, past, days),
      readLag(ctx),
    ]);
  return { past, granted, spent, refunded, expiring, refused, shortages, minted, opened, links, business, packs, lag };
}

async function overviewPage(c: Context<DashboardEnv>) {
  const days = RANGES.find((range) => String(range) === c.req.query("days")) ?? 30;
  const figures = await readOverview(c, days);
  const { granted, spent, business } = figures;
  const lead = leadIn(c);
  const isEmpty = [granted, spent].flat().every((figure) => figure.unit === null) && (business?.users ?? 0) === 0;
  return page(
    c,
    { title: "Overview", section: "overview" },
    <>
      {isEmpty && <FirstSteps c={c} />}
      <p class="ranges">
        Last{" "}
        {RANGES.map((range) => (
          <>
            <a
              href={`${pathIn(c, "overview")}${query({ days: String(range) })}`}
              aria-current={range === days ? "page" : undefined}
            >
              {range}
            </a>{" "}
          </>
        ))}
        days
      </p>
      {business === null && (
        <p class="card soft">
          What is outstanding, and how many users are active, is computed hourly, and not yet for this application.
        </p>
      )}
      {business !== null && (
        <div class="two">
          <Outstanding c={c} business={business} />
          <ActiveUsers c={c} business={business} />
        </div>
      )}
      {figures.lag.length > 0 && <Webhooks c={c} lag={figures.lag} />}
      <Credits days={days} figures={figures} lead={lead} />
      <Packs c={c} business={business} packs={figures.packs} from={figures.past} days={days} />
      <section aria-label="Errors and exports">
        <h2>Errors and exports (last {days} days)</h2>
        <div class="cards">
          {cards(figures.refused, "warn", lead)}
          {cards(figures.shortages, "warn", lead)}
          {cards(figures.minted, "granted", lead)}
          {cards(figures.opened, "granted", lead)}
          {cards(figures.links, "warn", lead)}
        </div>
        <p class="soft">
          A link by a publishable key is refused, and its event kept, where the other id is a user, is linked already,
          or neither id is known as a user's. Your server can link them with a secret key.
        </p>
      </section>
      <p class="soft">
        Days are in UTC. Figures by day are approximate: they are written a few seconds after each request and can miss
        some when a server process ends. “Expired” is what the hourly figures found remaining. “Expiring” is the amount
        granted to expire that day, whether or not it was spent since. Balances and ledgers are exact.
      </p>
    </>,
  );
}

type Figures = Awaited<ReturnType<typeof readOverview>>;

const Credits = ({ days, figures, lead }: { days: number; figures: Figures; lead: Lead }) => {
  const { granted, spent, refunded, expiring, business, past } = figures;
  const expired = business?.expired(past, days) ?? [];
  const all = [granted, spent, refunded, expiring].flat();
  const units = UNITS.filter((unit) => [...all, ...expired].some((figure) => figure.unit === unit));
  return (
    <section aria-label="Credits">
      <h2>
        Credits (last {days} days; expiring in the next {AHEAD_DAYS})
      </h2>
      {units.map((unit) => {
        const ofUnit = (figures: readonly Figure[]) => figures.filter((figure) => figure.unit === unit);
        return (
          <div class="cards">
            {cards(ofUnit(granted), "granted", lead)}
            {cards(ofUnit(spent), "spent", lead)}
            {cards(ofUnit(refunded), "spent", lead)}
            {expired
              .filter((each) => each.unit === unit)
              .map((each) => (
                <Card name="expired" unit={unit} days={each.days} kind="warn" lead={lead} />
              ))}
            {cards(ofUnit(expiring), "warn", lead)}
          </div>
        );
      })}
      {units.length === 0 && <div class="cards">{cards([...granted, ...spent], "granted", lead)}</div>}
    </section>
  );
};

export const overviewRoutes = () => createDashboardRoutes().get("/overview", overviewPage);
