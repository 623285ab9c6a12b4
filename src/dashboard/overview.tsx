import type { Context } from "hono";
import { type Figure, readActivity, readPacks } from "../activity/read.ts";
import { readBusiness } from "../activity/read-business.ts";
import { UNITS } from "../amounts/amount.ts";
import { DAY_MS } from "../lib/time.ts";
import { readLag } from "../webhooks/read-lag.ts";
import { Bars } from "./chart.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { query } from "./format.ts";
import { page, pathIn } from "./layout.tsx";
import { ActiveUsers, FirstSteps, Outstanding, Packs, Webhooks } from "./overview-business.tsx";
import { refusalsPath } from "./refusals.tsx";

const RANGES = [7, 30, 90] as const;
/** What lies ahead is shown for this many days. */
const AHEAD_DAYS = 30;

const NAMES: Readonly<Record<Figure["kind"], string>> = {
  granted: "Granted",
  spent: "Spent",
  refunded: "Refunded",
  expiring: "Expiring",
  failed_grant: "Refused grants",
  shortage: "Insufficient credits (402)",
  minted: "Export links created",
  opened: "Export links opened",
};

const Card = ({ figure, kind, href }: { figure: Figure; kind: string; href: string | undefined }) => (
  <div class="card">
    <Bars
      label={figure.unit === null ? NAMES[figure.kind] : `${NAMES[figure.kind]}, ${figure.unit}`}
      kind={kind}
      days={figure.days}
      href={href}
    />
  </div>
);

/** `href`: the list behind the figures. */
const cards = (figures: readonly Figure[], kind: string, href?: string) =>
  figures.map((figure) => <Card figure={figure} kind={kind} href={href} />);

async function readOverview(c: Context<DashboardEnv>, days: number) {
  const { ctx } = c.var;
  const today = ctx.now();
  const past = today - (days - 1) * DAY_MS;
  const [granted, spent, refunded, expiring, refused, shortages, minted, opened, business, packs, lag] =
    await Promise.all([
      readActivity(ctx, "granted", past, days),
      readActivity(ctx, "spent", past, days),
      readActivity(ctx, "refunded", past, days),
      readActivity(ctx, "expiring", today, AHEAD_DAYS),
      readActivity(ctx, "failed_grant", past, days),
      readActivity(ctx, "shortage", past, days),
      readActivity(ctx, "minted", past, days),
      readActivity(ctx, "opened", past, days),
      readBusiness(ctx),
      readPacks(ctx, past, days),
      readLag(ctx),
    ]);
  return { past, granted, spent, refunded, expiring, refused, shortages, minted, opened, business, packs, lag };
}

async function overviewPage(c: Context<DashboardEnv>) {
  const days = RANGES.find((range) => String(range) === c.req.query("days")) ?? 30;
  const figures = await readOverview(c, days);
  const { granted, spent, business } = figures;
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
      {business !== null && (
        <div class="two">
          <Outstanding c={c} business={business} />
          <ActiveUsers c={c} business={business} />
        </div>
      )}
      {figures.lag.length > 0 && <Webhooks c={c} lag={figures.lag} />}
      <Credits days={days} figures={figures} />
      <Packs c={c} business={business} packs={figures.packs} days={days} />
      <section aria-label="Errors and exports">
        <h2>Errors and exports (last {days} days)</h2>
        <div class="cards">
          {cards(figures.refused, "warn", pathIn(c, refusalsPath("failed_grant")))}
          {cards(figures.shortages, "warn", pathIn(c, refusalsPath("shortage")))}
          {cards(figures.minted, "granted")}
          {cards(figures.opened, "granted")}
        </div>
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

const Credits = ({ days, figures }: { days: number; figures: Figures }) => {
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
            {cards(ofUnit(granted), "granted")}
            {cards(ofUnit(spent), "spent")}
            {cards(ofUnit(refunded), "spent")}
            {expired
              .filter((each) => each.unit === unit)
              .map((each) => (
                <div class="card">
                  <Bars label={`Expired, ${unit}`} kind="warn" days={each.days} />
                </div>
              ))}
            {cards(ofUnit(expiring), "warn")}
          </div>
        );
      })}
      {units.length === 0 && <div class="cards">{cards([...granted, ...spent], "granted")}</div>}
    </section>
  );
};

export const overviewRoutes = () => createDashboardRoutes().get("/overview", overviewPage);
