import type { Context } from "hono";
import { doubleOf, exactAmount, toMinor, UNITS, type Unit } from "../books/amounts/amount.ts";
import type { Forecast } from "../books/credits/forecast.ts";
import type { BalanceList } from "../books/credits/list.ts";
import type { readUserTotals } from "../books/credits/read-balance.ts";
import type { ReservationOutput } from "../books/usage/reservations.ts";
import type { UserModels } from "../books/usage/usage-figures.ts";
import { Meter } from "./chart.tsx";
import { numberHead, Table, Tag, unitHead } from "./components.tsx";
import type { DashboardEnv } from "./form.ts";
import { amountText, queryString, runsOutText, shortAmount, timeText } from "./format.tsx";
import { pathIn } from "./layout.tsx";
import { ReservationLink } from "./links.tsx";
import { RuleList } from "./packs.tsx";
import { AmountList, UnitName, useUnits } from "./unit-amount.tsx";

export type UserBalance = BalanceList["balances"][number];

/** Shows the user's balances in spending order, each with a bar for the remaining amount. */
export const Balances = ({ c, userId, list }: { c: Context<DashboardEnv>; userId: string; list: BalanceList }) => (
  <section aria-label="Balances">
    <h2>Balances, in spending order</h2>
    {list.balances.length === 0 && <p class="card empty">This user has no balances.</p>}
    <Cards c={c} userId={userId} balances={list.balances.slice(0, OPEN_MAX)} />
    {list.balances.length > OPEN_MAX && (
      <details class="more">
        <summary>{list.balances.length - OPEN_MAX} more balances</summary>
        <Cards c={c} userId={userId} balances={list.balances.slice(OPEN_MAX)} />
      </details>
    )}
    {list.balances.length > 0 && (
      <p class="soft">
        {list.isTruncated ? "Not all balances are shown here. " : ""}
        <a href={`${pathIn(c, "users/balances")}${queryString({ userId })}`}>
          All balances, by status, pack and reference
        </a>
      </p>
    )}
  </section>
);

/** How many cards are open. The others are folded. */
const OPEN_MAX = 6;

interface CardsProps {
  readonly c: Context<DashboardEnv>;
  readonly userId: string;
  readonly balances: readonly UserBalance[];
}

const Cards = ({ c, userId, balances }: CardsProps) => (
  <div class="cards">
    {balances.map((balance) => (
      <ListedBalance c={c} userId={userId} balance={balance} />
    ))}
  </div>
);

const ListedBalance = ({ c, userId, balance }: { c: Context<DashboardEnv>; userId: string; balance: UserBalance }) => {
  const { balanceId } = balance;
  const remainingText = `${amountText(balance.remaining)} of ${useUnits()(balance.unit, balance.initial)}`;
  return (
    <article class="card">
      <h3>
        <a href={`${pathIn(c, "users/balance")}${queryString({ balanceId })}`}>{balance.packName}</a>{" "}
        <Tag kind={balance.status}>{balance.status}</Tag>
      </h3>
      <b>{remainingText}</b>
      <Meter label={`${remainingText} remaining`} remaining={balance.remaining} initial={balance.initial} />
      <p class="soft">
        Pays for <RuleList matches={balance.matches} />
        <br />
        Priority {balance.priority}, expires {timeText(balance.expiresAt)}
        <br />
        Granted {timeText(balance.grantedAt)} ({balance.source})
      </p>
      {balance.notes !== null && <p class="soft">“{balance.notes}”</p>}
      <p>
        <a href={`${pathIn(c, "users")}${queryString({ userId, balanceId })}#ledger`}>Ledger</a>
        {balance.status !== "revoked" && (
          <>
            {" · "}
            <a href={`${pathIn(c, "users/adjust")}${queryString({ userId, balanceId })}`}>Adjust</a>
            {" · "}
            <a href={`${pathIn(c, "users/revoke")}${queryString({ userId, balanceId })}`}>Revoke</a>
          </>
        )}
      </p>
    </article>
  );
};

interface TotalsProps {
  readonly list: BalanceList;
  readonly totals: Awaited<ReturnType<typeof readUserTotals>>;
  readonly forecasts: readonly Forecast[];
}

/** Returns the text after a unit's amount: when it runs out. Empty if that cannot be told. */
function runsOutNote(forecast: Forecast | undefined): string {
  if (forecast === undefined) return "";
  const { unit, daysLeft, days, aDay, expiring } = forecast;
  if (daysLeft === 0) return `. It ran out: ${shortAmount(aDay)} ${unit} a day were debited before`;
  const basis = days <= 1 ? "day" : `${Math.round(days)} days`;
  const lost = expiring > 0 ? `; ${shortAmount(expiring)} of it expire unused` : "";
  return `. Runs out ${runsOutText(daysLeft)}, if debits go on as in the last ${basis}${lost}`;
}

/** Returns the units of which nothing is left. */
const spentUnits = ({ units }: TotalsProps["totals"], forecasts: readonly Forecast[]) =>
  forecasts
    .filter(({ unit, daysLeft }) => daysLeft === 0 && units.every((each) => each.unit !== unit))
    .map(({ unit }) => ({ unit, remaining: 0, held: 0, heldMinor: 0n }));

/** Returns the spendable amounts of a unit, by the events that they pay for. Empty if all of them pay for every event. */
function byRules({ balances, isTruncated }: BalanceList, unit: Unit) {
  const active = balances.filter((balance) => balance.unit === unit && balance.status === "active");
  if (isTruncated || active.every(({ matches }) => matches.length === 0)) return [];
  return [...Map.groupBy(active, ({ matches }) => JSON.stringify(matches)).values()].map((group) => ({
    matches: group[0]?.matches ?? [],
    amount: exactAmount(
      unit,
      group.reduce((sum, { remaining }) => sum + BigInt(toMinor(unit, remaining) ?? 0), 0n),
    ),
  }));
}

/** Shows the user's totals by unit. */
export const Totals = ({ list, totals, forecasts }: TotalsProps) => (
  <section class="card" id="totals">
    <h2>Total</h2>
    {totals.units.length === 0 && <p class="empty">Nothing can be spent now.</p>}
    <dl class="facts">
      {[...totals.units, ...spentUnits(totals, forecasts)].map(({ unit, remaining, held, heldMinor }) => (
        <>
          <dt>
            <UnitName unit={unit} />
          </dt>
          <dd>
            <b class="num">{amountText(remaining)}</b> can be spent now
            {heldMinor > 0n ? `, and ${amountText(held)} more are held by open reservations` : ""}
            {runsOutNote(forecasts.find((forecast) => forecast.unit === unit))}
            {byRules(list, unit).map(({ matches, amount }) => (
              <div>
                <span class="num">{amountText(amount)}</span> for <RuleList matches={matches} />
              </div>
            ))}
          </dd>
        </>
      ))}
    </dl>
    {totals.isPartial && (
      <p class="soft">
        The real totals may be larger: only {amountText(totals.balances)} balances and reservations are added up.
      </p>
    )}
  </section>
);

/** Shows the user's usage by model. */
export const ByModel = ({ usage: { days, models, isPartial } }: { usage: UserModels }) => {
  if (models.length === 0) return null;
  const units = UNITS.filter((unit) => models.some(({ quantities }) => doubleOf(quantities[unit]) > 0));
  return (
    <section class="card" id="models">
      <h2>Usage in {days} days, by model</h2>
      <Table
        label="Usage by model"
        csv="usage-by-model"
        head={["Model", numberHead("Events"), ...units.map(unitHead)]}
        empty=""
        rows={models.map(({ model, events, quantities }) => [
          model ?? <span class="soft">none</span>,
          amountText(events),
          ...units.map((unit) => amountText(quantities[unit] ?? 0)),
        ])}
      />
      <p class="soft">
        Summed some minutes after each event.{isPartial ? " There is more usage than is added up here." : ""}
      </p>
    </section>
  );
};

interface HoldsProps {
  readonly c: Context<DashboardEnv>;
  readonly reservations: readonly ReservationOutput[];
  readonly isAll: boolean;
}

/** Shows the user's open reservations, each with a link to its page, where it can be released. */
export const Holds = ({ c, reservations, isAll }: HoldsProps) => (
  <section class="card" id="holds">
    <h2>Open reservations</h2>
    <Table
      label="Open reservations"
      csv="reservations"
      head={["Reservation", "Event", "Holds", "Expires", ""]}
      empty=""
      rows={reservations.map((reservation) => [
        <ReservationLink c={c} id={reservation.reservationId} />,
        [reservation.event, reservation.model].filter((part) => part !== null).join(" · "),
        <span class="num">
          <AmountList of={reservation.holds} />
        </span>,
        <span class="num">
          {timeText(reservation.expiresAt)}, then {reservation.onExpiry === "charge" ? "charged" : "returned"}
        </span>,
        <a
          href={`${pathIn(c, "users/reservation")}${queryString({ reservationId: reservation.reservationId })}`}
          aria-label={`Release ${reservation.reservationId}`}
        >
          Release
        </a>,
      ])}
    />
    {!isAll && <p class="soft">Only the newest {reservations.length} are shown.</p>}
  </section>
);
