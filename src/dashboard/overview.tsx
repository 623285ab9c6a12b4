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
  failed_grant: "Grants refused",
  shortage: "Shortages (402)",
  minted: "Export links minted",
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
        <h2>Credits: the last {DAYS} days, and what expires in the next</h2>
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
      <section aria-label="Refusals and exports">
        <h2>Refusals and exports, the last {DAYS} days</h2>
        <div class="cards">
          {cards(refused, "warn")}
          {cards(shortages, "warn")}
          {cards(minted, "granted")}
          {cards(opened, "granted")}
        </div>
      </section>
      <p class="soft">
        Days are UTC. These figures are counted beside the requests and written a few seconds later; when a server
        process ends in between, what it had counted is missing here. Expiring is what was granted to that day, whether
        or not it has been spent, adjusted or revoked since. Balances and ledgers are exact: see Users.
      </p>
    </>,
  );
}

export const overviewRoutes = () => createDashboardRoutes().get("/overview", overviewPage);
