import type { Context } from "hono";
import { type Figure, readActivity } from "../activity/read.ts";
import { UNITS } from "../amounts/amount.ts";
import { DAY_MS } from "../lib/time.ts";
import { Bars } from "./chart.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { page } from "./layout.tsx";

const DAYS = 30;

const NAMES: Readonly<Record<Figure["kind"], string>> = {
  granted: "Granted",
  spent: "Spent",
  expiring: "Expiring",
  failed_grant: "Failed grants",
  shortage: "Insufficient credits (402)",
  minted: "Export links created",
  opened: "Export links opened",
};

const Card = ({ figure, kind }: { figure: Figure; kind: string }) => (
  <div class="card">
    <Bars
      label={figure.unit === null ? NAMES[figure.kind] : `${NAMES[figure.kind]}, ${figure.unit}`}
      kind={kind}
      days={figure.days}
    />
  </div>
);

async function overviewPage(c: Context<DashboardEnv>) {
  const { ctx } = c.var;
  const today = ctx.now();
  const past = today - (DAYS - 1) * DAY_MS;
  const [granted, spent, expiring, refused, shortages, minted, opened] = await Promise.all([
    readActivity(ctx, "granted", past, DAYS),
    readActivity(ctx, "spent", past, DAYS),
    readActivity(ctx, "expiring", today, DAYS),
    readActivity(ctx, "failed_grant", past, DAYS),
    readActivity(ctx, "shortage", past, DAYS),
    readActivity(ctx, "minted", past, DAYS),
    readActivity(ctx, "opened", past, DAYS),
  ]);
  const all = [granted, spent, expiring].flat();
  const units = UNITS.filter((unit) => all.some((figure) => figure.unit === unit));
  const none = all.filter((figure) => figure.unit === null);
  const cards = (figures: readonly Figure[], kind: string) =>
    figures.map((figure) => <Card figure={figure} kind={kind} />);
  return page(
    c,
    { title: `${c.var.appName}, ${ctx.environment.mode}`, section: "overview" },
    <>
      <section aria-label="Credits">
        <h2>
          Credits (last {DAYS} days; expiring in the next {DAYS})
        </h2>
        {units.map((unit) => {
          const ofUnit = (figures: readonly Figure[]) => figures.filter((figure) => figure.unit === unit);
          return (
            <div class="cards">
              {cards(ofUnit(granted), "granted")}
              {cards(ofUnit(spent), "spent")}
              {cards(ofUnit(expiring), "warn")}
            </div>
          );
        })}
        {units.length === 0 && <div class="cards">{cards(none, "granted")}</div>}
      </section>
      <section aria-label="Errors and exports">
        <h2>Errors and exports (last {DAYS} days)</h2>
        <div class="cards">
          {cards(refused, "warn")}
          {cards(shortages, "warn")}
          {cards(minted, "granted")}
          {cards(opened, "granted")}
        </div>
      </section>
      <p class="soft">
        Days are in UTC. Figures are approximate: they are written a few seconds after each request and can miss some
        when a server process ends. “Expiring” is the amount granted to expire that day, whether or not it was spent
        since. Balances and ledgers are exact.
      </p>
    </>,
  );
}

export const overviewRoutes = () => createDashboardRoutes().get("/overview", overviewPage);
