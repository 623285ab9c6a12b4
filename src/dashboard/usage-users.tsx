import type { Context } from "hono";
import { doubleOf, UNITS, type Unit } from "../books/amounts/amount.ts";
import type { FoundUser } from "../books/credits/users.ts";
import type { UsageFigures } from "../books/usage/usage-figures.ts";
import { Amounts, numberHead, Table } from "./components.tsx";
import type { DashboardEnv } from "./form.ts";
import { amountText, queryString, runsOutText, shortAmount } from "./format.tsx";
import { pathIn } from "./layout.tsx";
import { UserLink } from "./links.tsx";

type UserUsed = UsageFigures["users"]["largest"][number];

/** How many of the largest users' credits are read. */
export const CREDITS_READ_MAX = 100;
const RUNNING_OUT_MAX = 25;

/** Returns the units that some of these used. */
export const unitsUsed = (groups: readonly Pick<UserUsed, "quantities">[]): readonly Unit[] =>
  UNITS.filter((unit) => groups.some(({ quantities }) => doubleOf(quantities[unit]) > 0));

/** Returns the middle value, or the mean of both middle ones. */
function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low = 0, high = 0] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return (low + high) / 2;
}

/** Returns after how many days a user's credits of a unit end at the current rate. Null when it is not known. */
function daysLeft(user: FoundUser, { quantities, days }: UserUsed, unit: Unit): number | null {
  const used = doubleOf(quantities[unit]);
  const remaining = user.remaining.find((each) => each.unit === unit)?.amount;
  return used === 0 || remaining === undefined || user.isPartial ? null : (doubleOf(remaining) / used) * days;
}

interface UsersProps {
  readonly c: Context<DashboardEnv>;
  readonly largest: readonly UserUsed[];
  /** The credits of the largest users. */
  readonly users: readonly FoundUser[];
}

/** Shows the largest users, with the multiple of the median. */
export const TopUsers = ({ c, largest, users }: UsersProps) => {
  const units = unitsUsed(largest);
  const medians = new Map(
    units.map((unit) => [unit, medianOf(largest.map(({ quantities }) => doubleOf(quantities[unit])))]),
  );
  const median = medianOf(largest.map(({ events }) => events));
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
          numberHead("Events"),
          numberHead("× median"),
          ...units.flatMap((unit) => [numberHead(unit), numberHead("× median")]),
          "Can be spent now",
        ]}
        empty=""
        csv="top-users"
        rows={largest.map(({ userId, events, quantities }) => {
          const user = users.find((each) => each.userId === userId);
          return [
            <UserLink c={c} id={userId} />,
            amountText(events),
            timesText(events, median),
            ...units.flatMap((unit) => {
              const used = quantities[unit] ?? 0;
              return [amountText(used), timesText(doubleOf(used), medians.get(unit) ?? 0)];
            }),
            user === undefined ? <span class="soft">see the user</span> : <Amounts of={user.remaining} />,
          ];
        })}
      />
      <p class="soft">
        The median is that of the {amountText(largest.length)} {largest.length === 1 ? "user" : "users"} listed.
      </p>
    </section>
  );
};

const timesText = (value: number, median: number): string =>
  median === 0 ? "–" : `${amountText(Math.round((10 * value) / median) / 10)} ×`;

/** Shows the largest users whose credits end first at the current rate. */
export const RunsOut = ({ c, largest, users }: UsersProps) => {
  const ends = largest.flatMap((used) => {
    const user = users.find(({ userId }) => userId === used.userId);
    if (user === undefined) return [];
    return UNITS.flatMap((unit) => {
      const left = daysLeft(user, used, unit);
      return left === null ? [] : [{ user, used, unit, left }];
    });
  });
  const soon = new Set(ends.filter(({ left }) => left < 2).map(({ user }) => user.userId)).size;
  const first = ends.toSorted((a, b) => a.left - b.left).slice(0, RUNNING_OUT_MAX);
  return (
    <section class="card">
      <div class="card-head">
        <h2>Runs out next</h2>
        <p class="soft">
          {amountText(soon)} {soon === 1 ? "user runs" : "users run"} out by tomorrow, if usage goes on as in these
          days. Of the {CREDITS_READ_MAX} users with the most events.
        </p>
      </div>
      <Table
        label="Runs out next"
        csv="runs-out-next"
        head={["User", numberHead("Can be spent now"), numberHead("A day"), "Runs out", ""]}
        empty="Not known for any user: no user has used credits of a unit that they still have."
        rows={first.map(({ user, used, unit, left }) => [
          <UserLink c={c} id={user.userId} />,
          `${amountText(user.remaining.find((each) => each.unit === unit)?.amount ?? 0)} ${unit}`,
          `${shortAmount(doubleOf(used.quantities[unit]) / used.days)} ${unit}`,
          runsOutText(left),
          <a class="button quiet small" href={`${pathIn(c, "users/grant")}${queryString({ userId: user.userId })}`}>
            Grant
          </a>,
        ])}
      />
    </section>
  );
};
