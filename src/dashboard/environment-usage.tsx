import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { UNITS, type Unit } from "../books/amounts/amount.ts";
import { type FoundUser, namedUsers } from "../books/credits/users.ts";
import { readEnvironmentUsage } from "../books/usage/environment-usage.ts";
import type { EnvironmentUsageOutput } from "../books/usage/responses.ts";
import { environmentUsageInput } from "../books/usage/schemas.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import { DayChart } from "./chart.tsx";
import { Amounts, Empty, Field, numbers, Table } from "./components.tsx";
import { catchRefusal, createDashboardRoutes, type DashboardEnv, parseForm, textField } from "./form.ts";
import { amountText, queryString, runsOutText, shortAmount, Time } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { UserLink } from "./people-list.tsx";

type Total = EnvironmentUsageOutput["totals"][number];
type GroupBy = "day" | "model" | "event" | "user";

const DAYS_SHOWN = 30;
/** How many rows of day sums a table of the page may read. */
const DAY_SUMS_MAX = 200_000;
/** How many users' credits are read. */
const TOP_USERS_MAX = 50;
const RUNNING_OUT_MAX = 10;

const dateOf = (atMs: number): string => iso(atMs).slice(0, 10);

/** Returns the days of the form, both included; by default the last 30. */
function daysAsked(c: Context<DashboardEnv>) {
  const today = Math.floor(c.var.ctx.now() / DAY_MS) * DAY_MS;
  const form = c.req.query();
  return {
    from: textField(form, "from") ?? dateOf(today - (DAYS_SHOWN - 1) * DAY_MS),
    to: textField(form, "to") ?? dateOf(today),
  };
}

async function readUsage(c: Context<DashboardEnv>, days: { readonly from: string; readonly to: string }) {
  const { ctx, root } = c.var;
  const { appId, mode } = ctx.environment;
  const lastMs = Date.parse(`${days.to}T00:00:00Z`);
  const to = Number.isNaN(lastMs) ? days.to : iso(lastMs + DAY_MS);
  const read = (groupBy: GroupBy) =>
    readEnvironmentUsage(
      root,
      appId,
      parseForm(environmentUsageInput, { mode, from: `${days.from}T00:00:00Z`, to, groupBy }),
      DAY_SUMS_MAX,
    );
  const [byDay, byModel, byEvent, byUser] = await Promise.all([
    read("day"),
    read("model"),
    read("event"),
    read("user"),
  ]);
  const ids = byUser.totals.slice(0, TOP_USERS_MAX).map(({ userId = "" }) => userId);
  const users = await namedUsers(ctx, ids);
  return { byDay, byModel, byEvent, byUser, users };
}
type UsageFigures = Awaited<ReturnType<typeof readUsage>>;

/** Returns the middle value, or the mean of both middle ones. */
function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low = 0, high = 0] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return (low + high) / 2;
}

/** Returns after how many days a user's credits of a unit end at the current rate. Null when it is not known. */
function daysLeft(user: FoundUser, { quantities }: Total, unit: Unit, days: number): number | null {
  const used = quantities[unit] ?? 0;
  const remaining = user.remaining.find((each) => each.unit === unit)?.amount;
  return used === 0 || remaining === undefined || user.isPartial ? null : (remaining / used) * days;
}

async function environmentUsagePage(c: Context<DashboardEnv>) {
  const days = daysAsked(c);
  const found = await catchRefusal(() => readUsage(c, days));
  return page(
    c,
    { title: "Usage", section: "usage", refusal: found.refusal },
    <>
      <form method="get" action={pathIn(c, "usage")} class="card row">
        <Field label="From (UTC)" name="from" type="date" value={days.from} refusal={found.refusal} />
        <Field label="To, included (UTC)" name="to" type="date" value={days.to} refusal={found.refusal} />
        <button type="submit">Show</button>
      </form>
      {found.result !== undefined && <UsageFound c={c} usage={found.result} days={days} />}
    </>,
  );
}

interface FoundProps {
  readonly c: Context<DashboardEnv>;
  readonly usage: UsageFigures;
  readonly days: { readonly from: string; readonly to: string };
}

const unitsUsed = ({ totals }: EnvironmentUsageOutput): readonly Unit[] =>
  UNITS.filter((unit) => totals.some(({ quantities }) => (quantities[unit] ?? 0) > 0));

const UsageFound = ({ c, usage, days }: FoundProps) => {
  const { byDay, byModel, byEvent } = usage;
  if (byDay.totals.length === 0) {
    return (
      <section class="card">
        <Empty icon="overview" title="No usage in these days">
          Usage appears here within minutes after it is recorded.
        </Empty>
      </section>
    );
  }
  const dates = Array.from({ length: daysIn(days) }, (_, index) => dateOf(Date.parse(days.from) + index * DAY_MS));
  const valueOn = (date: string, of: (total: Total) => number) => {
    const total = byDay.totals.find(({ time }) => time?.startsWith(date));
    return total === undefined ? 0 : of(total);
  };
  const charts: readonly (readonly [label: string, of: (total: Total) => number])[] = [
    ["Events", ({ events }) => events],
    ...unitsUsed(byDay).map((unit) => [unit, ({ quantities }: Total) => quantities[unit] ?? 0] as const),
  ];
  return (
    <>
      <section class="two" aria-label="Usage by day">
        {charts.map(([label, of]) => (
          <div class="card">
            <DayChart
              label={label}
              total={shortAmount(byDay.totals.reduce((sum, total) => sum + of(total), 0))}
              series={[{ name: label, days: dates.map((date) => ({ date, value: valueOn(date, of) })) }]}
            />
          </div>
        ))}
      </section>
      <div class="two">
        <Grouped name="Model" usage={byModel} nameOf={({ model }) => model ?? <span class="soft">none</span>} />
        <Grouped name="Event" usage={byEvent} nameOf={({ event }) => <code>{event}</code>} />
      </div>
      <RunsOut c={c} usage={usage} days={daysIn(days)} />
      <TopUsers c={c} usage={usage} days={daysIn(days)} />
      <p class="soft">
        Days are in UTC. What was received until <Time at={byDay.upTo} /> is in these figures, and some of what came
        later.
      </p>
    </>
  );
};

const daysIn = ({ from, to }: FoundProps["days"]): number => (Date.parse(to) - Date.parse(from)) / DAY_MS + 1;

interface GroupedProps {
  readonly name: string;
  readonly usage: EnvironmentUsageOutput;
  readonly nameOf: (total: Total) => Child;
}

const SHOWN_GROUPS_MAX = 200;

const Grouped = ({ name, usage, nameOf }: GroupedProps) => {
  const title = `By ${name.toLowerCase()}`;
  const units = unitsUsed(usage);
  const largest = usage.totals.toSorted((a, b) => b.events - a.events).slice(0, SHOWN_GROUPS_MAX);
  return (
    <section class="card">
      <h2>{title}</h2>
      <Table
        label={title}
        head={[name, numbers("Events"), ...units.map(numbers)]}
        empty=""
        csv={`by-${name.toLowerCase()}`}
        rows={largest.map((total) => [
          nameOf(total),
          amountText(total.events),
          ...units.map((unit) => amountText(total.quantities[unit] ?? 0)),
        ])}
      />
      {usage.totals.length > SHOWN_GROUPS_MAX && <p class="soft">The {SHOWN_GROUPS_MAX} with the most events.</p>}
    </section>
  );
};

interface UsersProps {
  readonly c: Context<DashboardEnv>;
  readonly usage: UsageFigures;
  readonly days: number;
}

/** Shows the largest users, with the multiple of the median. */
const TopUsers = ({ c, usage: { byUser, users }, days }: UsersProps) => {
  const units = unitsUsed(byUser);
  const medians = new Map(
    units.map((unit) => [unit, medianOf(byUser.totals.map(({ quantities }) => quantities[unit] ?? 0))]),
  );
  const median = medianOf(byUser.totals.map(({ events }) => events));
  return (
    <section class="card">
      <div class="card-head">
        <h2>Top users</h2>
        <p class="soft">The users with the most events, and with the most of each unit. Click a column to sort.</p>
      </div>
      <Table
        label="Top users"
        head={[
          "User",
          numbers("Events"),
          numbers("× median"),
          ...units.flatMap((unit) => [numbers(unit), numbers("× median")]),
          "Can be spent now",
        ]}
        empty=""
        csv="top-users"
        rows={byUser.totals.map((total) => {
          const user = users.find(({ userId }) => userId === total.userId);
          return [
            <UserLink c={c} id={total.userId ?? ""} />,
            amountText(total.events),
            timesText(total.events, median),
            ...units.flatMap((unit) => {
              const used = total.quantities[unit] ?? 0;
              return [amountText(used), timesText(used, medians.get(unit) ?? 0)];
            }),
            user === undefined ? <span class="soft">see the user</span> : <Amounts of={user.remaining} />,
          ];
        })}
      />
      <p class="soft">
        The median is that of the {amountText(byUser.totals.length)} {byUser.totals.length === 1 ? "user" : "users"}{" "}
        listed, over {amountText(days)} {days === 1 ? "day" : "days"}.
      </p>
    </section>
  );
};

const timesText = (value: number, median: number): string =>
  median === 0 ? "–" : `${amountText(Math.round((10 * value) / median) / 10)} ×`;

/** Shows the largest users whose credits end first at the current rate. */
const RunsOut = ({ c, usage: { byUser, users }, days }: UsersProps) => {
  const ends = byUser.totals.flatMap((total) => {
    const user = users.find(({ userId }) => userId === total.userId);
    if (user === undefined) return [];
    return UNITS.flatMap((unit) => {
      const left = daysLeft(user, total, unit, days);
      return left === null ? [] : [{ user, total, unit, left }];
    });
  });
  const first = ends.toSorted((a, b) => a.left - b.left).slice(0, RUNNING_OUT_MAX);
  return (
    <section class="card">
      <div class="card-head">
        <h2>Runs out next</h2>
        <p class="soft">If usage goes on as in these days. Of the {TOP_USERS_MAX} users with the most events.</p>
      </div>
      <Table
        label="Runs out next"
        csv="runs-out-next"
        head={["User", numbers("Can be spent now"), numbers("A day"), "Runs out", ""]}
        empty="Not known of anybody: nobody used credits of a unit that they have."
        rows={first.map(({ user, total, unit, left }) => [
          <UserLink c={c} id={user.userId} />,
          `${amountText(user.remaining.find((each) => each.unit === unit)?.amount ?? 0)} ${unit}`,
          `${shortAmount((total.quantities[unit] ?? 0) / days)} ${unit}`,
          runsOutText(left),
          <a class="button quiet small" href={`${pathIn(c, "users/grant")}${queryString({ userId: user.userId })}`}>
            Grant
          </a>,
        ])}
      />
    </section>
  );
};

export const environmentUsagePages = createDashboardRoutes().get("/usage", environmentUsagePage);
