import { doubleOf, UNITS, type Unit } from "../books/amounts/amount.ts";
import { FORECAST_DAYS, type Forecast } from "../books/credits/forecast.ts";
import type { FoundUser } from "../books/credits/users.ts";
import type { UsageFigures } from "../books/usage/usage-figures.ts";
import { LinkButton } from "./app-link.tsx";
import { Amounts } from "./components.tsx";
import { amountText, runsOutText, shortAmount } from "./format.tsx";
import { UserLink } from "./links.tsx";
import { numberHead, Table, unitHead } from "./table.tsx";
import { BareAmount, UnitAmount, UnitLabel } from "./unit-amount.tsx";

type UserUsed = UsageFigures["users"]["largest"][number];

/** How many of the largest users' credits are read. */
export const CREDITS_READ_MAX = 100;
const RUNNING_OUT_MAX = 25;

/** Returns the units that some of these used. */
export const unitsUsed = (groups: readonly Pick<UserUsed, "quantities">[]): readonly Unit[] =>
  UNITS.filter((unit) => groups.some(({ quantities }) => doubleOf(quantities[unit]) > 0));

/** Returns the middle value, or the mean of both middle ones. */
function computeMedian(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low = 0, high = 0] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return (low + high) / 2;
}

interface UsersProps {
  readonly largest: readonly UserUsed[];
  /** The credits of the largest users. */
  readonly users: readonly FoundUser[];
}

/** Shows the largest users, with the multiple of the median. */
export const TopUsers = ({ largest, users }: UsersProps) => {
  const units = unitsUsed(largest);
  const medianOf = (unit: Unit) => computeMedian(largest.map(({ quantities }) => doubleOf(quantities[unit])));
  const median = computeMedian(largest.map(({ events }) => events));
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
          ...units.flatMap((unit) => [unitHead(unit), ...(medianOf(unit) > 0 ? [numberHead("× median")] : [])]),
          "Can be spent now",
        ]}
        empty=""
        csv="top-users"
        rows={largest.map(({ userId, events, quantities }) => {
          const user = users.find((each) => each.userId === userId);
          return [
            <UserLink id={userId} />,
            amountText(events),
            timesText(events, median),
            ...units.flatMap((unit) => {
              const used = quantities[unit] ?? 0;
              return [
                <BareAmount of={used} unit={unit} />,
                ...(medianOf(unit) > 0 ? [timesText(doubleOf(used), medianOf(unit))] : []),
              ];
            }),
            user === undefined || user.isPartial ? (
              <span class="soft">see the user</span>
            ) : (
              <Amounts of={user.remaining} />
            ),
          ];
        })}
      />
      <p class="soft">
        The median is that of the {amountText(largest.length)} {largest.length === 1 ? "user" : "users"} listed.
      </p>
    </section>
  );
};

const timesText = (value: number, median: number): string => `${amountText(Math.round((10 * value) / median) / 10)} ×`;

interface RunsOutProps {
  readonly forecasts: ReadonlyMap<string, readonly Forecast[]>;
  /** The credits of the same users. */
  readonly users: readonly FoundUser[];
}

/** Shows the largest users whose credits have ended, or end first at the current rate. */
export const RunsOut = ({ forecasts, users }: RunsOutProps) => {
  const ends = [...forecasts].flatMap(([userId, units]) => units.map((forecast) => ({ userId, ...forecast })));
  const usersWho = (is: (daysLeft: number) => boolean) =>
    new Set(ends.filter(({ daysLeft }) => is(daysLeft)).map(({ userId }) => userId)).size;
  const [out, soon] = [usersWho((left) => left === 0), usersWho((left) => left > 0 && left < 2)];
  const first = ends.toSorted((a, b) => a.daysLeft - b.daysLeft).slice(0, RUNNING_OUT_MAX);
  const remainingOf = (id: string, unit: Unit) =>
    users.find(({ userId }) => userId === id)?.remaining.find((each) => each.unit === unit)?.amount ?? 0;
  return (
    <section class="card">
      <div class="card-head">
        <h2>Runs out next</h2>
        <p class="soft">
          {out > 0 && `${amountText(out)} ${out === 1 ? "user has" : "users have"} nothing left of a unit. `}
          {soon > 0 && `${amountText(soon)} ${soon === 1 ? "user runs" : "users run"} out by tomorrow. `}
          This assumes debits as in the last {FORECAST_DAYS} days, and includes expiries. It covers the{" "}
          {CREDITS_READ_MAX} users with the most events, where it can be told.
        </p>
      </div>
      <Table
        label="Runs out next"
        csv="runs-out-next"
        head={["User", numberHead("Can be spent now"), numberHead("Debited a day"), "Runs out", ""]}
        empty="Not known for any of these users."
        rows={first.map(({ userId, unit, aDay, daysLeft }) => [
          <UserLink id={userId} />,
          <UnitAmount of={remainingOf(userId, unit)} unit={unit} />,
          <>
            {shortAmount(aDay)} <UnitLabel unit={unit} />
          </>,
          runsOutText(daysLeft),
          <LinkButton text="Grant" kind="small" to="users/grant" fields={{ userId }} />,
        ])}
      />
    </section>
  );
};
