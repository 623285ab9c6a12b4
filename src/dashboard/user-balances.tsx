import { type Child, useContext } from "hono/jsx";
import { doubleOf, exactAmount, toMinor, UNITS, type Unit } from "../books/amounts/amount.ts";
import type { Forecast } from "../books/credits/forecast.ts";
import type { BalanceList } from "../books/credits/list.ts";
import type { readUserTotals } from "../books/credits/read-balance.ts";
import type { ReservationOutput } from "../books/usage/read-reservation.ts";
import type { UserModels } from "../books/usage/usage-figures.ts";
import { AppLink } from "./app-link.tsx";
import { Meter } from "./chart.tsx";
import { Card, RowMenu, Tag } from "./components.tsx";
import { amountText, runsOutText, shortAmount, timeText } from "./format.tsx";
import { ReservationLink, releasePath } from "./links.tsx";
import { RuleList } from "./packs.tsx";
import { numberHead, Table, unitHead } from "./table.tsx";
import { AmountList, BareAmount, PartOfAmount, partText, UnitAmount, UnitLabel, UnitsContext } from "./unit-amount.tsx";

export type UserBalance = BalanceList["balances"][number];

/** How many grants are open. The others are folded. */
const OPEN_MAX = 6;

const isLive = (grant: readonly UserBalance[]) => grant.some(({ status }) => status === "active");

/** Shows the user's grants, each with its balances: those that pay first come first, and after them those that ended last. */
export const Balances = ({ userId, list }: { userId: string; list: BalanceList }) => {
  const { live = [], ended = [] } = Object.groupBy(balancesByGrant(list), (grant) =>
    isLive(grant) ? "live" : "ended",
  );
  const grants = [...live, ...ended.toReversed()];
  const folded = grants.slice(OPEN_MAX);
  return (
    <Card title="Balances, in spending order" id="balances">
      <UserGrants userId={userId} label="Grants" grants={grants.slice(0, OPEN_MAX)} />
      {folded.length > 0 && (
        <details class="more">
          <summary>{folded.flat().length} more balances</summary>
          <UserGrants userId={userId} label="More grants" grants={folded} />
        </details>
      )}
      {grants.length > 0 && (
        <p class="soft">
          {list.isTruncated ? "Not all balances are shown here. " : ""}
          <AppLink to="users/balances" fields={{ userId }}>
            All balances, by status, pack and reference
          </AppLink>
        </p>
      )}
    </Card>
  );
};

/** Returns the balances of each grant together. A grant issues each item of its pack once. */
function balancesByGrant({ balances }: BalanceList): readonly (readonly UserBalance[])[] {
  const counts = new Map<string, number>();
  const groups = Map.groupBy(balances, ({ packId, packItemId, grantedAt, source, notes }) => {
    const item = JSON.stringify([packId, packItemId, grantedAt, source, notes]);
    const count = (counts.get(item) ?? 0) + 1;
    counts.set(item, count);
    return JSON.stringify([packId, grantedAt, source, notes, count]);
  });
  return [...groups.values()];
}

interface UserGrantsProps {
  readonly userId: string;
  readonly label: string;
  readonly grants: readonly (readonly UserBalance[])[];
}

const UserGrants = ({ userId, label, grants }: UserGrantsProps) => (
  <Table
    label={label}
    csv="balances"
    head={["Grant", "Remaining", "Expires (UTC)", ""]}
    empty="This user has no balances."
    rows={grants.flatMap((grant) => {
      const [first] = grant;
      return first === undefined ? [] : [grantRow({ userId, grant, first })];
    })}
  />
);

interface GrantProps {
  readonly userId: string;
  readonly grant: readonly UserBalance[];
  readonly first: UserBalance;
}

const grantRow = ({ userId, grant, first }: GrantProps): readonly Child[] => [
  <>
    <AppLink to="users/balance" fields={{ balanceId: first.balanceId }}>
      {first.packName}
    </AppLink>
    <div class="soft">
      Granted {timeText(first.grantedAt)} ({first.source})
    </div>
    {first.notes !== null && <div class="soft">“{first.notes}”</div>}
  </>,
  grant.map((balance) => <RemainingOf balance={balance} />),
  timeText(first.expiresAt),
  <RowMenu label={`Actions for ${first.packName}, ${first.balanceId}`}>
    {grant.flatMap((balance) => {
      const linkTo = (path: string, name: string, hash?: string) => (
        <AppLink to={path} fields={{ userId, balanceId: balance.balanceId }} hash={hash}>
          {name}
          {grant.length > 1 && (
            <>
              {" "}
              <UnitAmount of={balance.initial} unit={balance.unit} />
            </>
          )}
        </AppLink>
      );
      const changes = [linkTo("users/adjust", "Adjust"), linkTo("users/revoke", "Revoke")];
      return [linkTo("users", "Ledger", "ledger"), ...(balance.status === "revoked" ? [] : changes)];
    })}
  </RowMenu>,
];

const RemainingOf = ({
  balance: { remaining, initial, unit, status, matches, priority },
}: {
  balance: UserBalance;
}) => {
  const text = partText(useContext(UnitsContext), unit, remaining, initial);
  return (
    <div class="remaining">
      <span class="num">
        <PartOfAmount part={remaining} of={initial} unit={unit} />
      </span>{" "}
      for <RuleList matches={matches} /> <span class="soft">priority {priority}</span>{" "}
      {status === "active" ? null : <Tag kind={status}>{status}</Tag>}
      <Meter label={`${text} remaining`} remaining={remaining} initial={initial} />
    </div>
  );
};

interface TotalsProps {
  readonly list: BalanceList;
  readonly totals: Awaited<ReturnType<typeof readUserTotals>>;
  readonly forecasts: readonly Forecast[];
}

/** Returns the text after an amount: when it runs out. Empty if that cannot be told. */
function runsOutNote(forecast: Forecast | undefined): string {
  if (forecast === undefined) return "";
  const { daysLeft, days, aDay, expiring } = forecast;
  if (daysLeft === 0) return `. It ran out: ${shortAmount(aDay)} a day were debited before`;
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
  <Card title="Total" id="totals">
    {totals.units.length === 0 && <p class="empty">Nothing can be spent now.</p>}
    <dl class="facts">
      {[...totals.units, ...spentUnits(totals, forecasts)].map(({ unit, remaining, held, heldMinor }) => (
        <>
          <dt>
            <UnitLabel unit={unit} />
          </dt>
          <dd>
            <b class="num">
              <BareAmount of={remaining} unit={unit} />
            </b>{" "}
            can be spent now
            {heldMinor > 0n && (
              <>
                , and <BareAmount of={held} unit={unit} /> more are held by open reservations
              </>
            )}
            {runsOutNote(forecasts.find((forecast) => forecast.unit === unit))}
            {byRules(list, unit).map(({ matches, amount }) => (
              <div>
                <span class="num">
                  <BareAmount of={amount} unit={unit} />
                </span>{" "}
                for <RuleList matches={matches} />
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
  </Card>
);

/** Shows the user's usage by model. */
export const ByModel = ({ usage: { days, models, isPartial } }: { usage: UserModels }) => {
  if (models.length === 0) return null;
  const units = UNITS.filter((unit) => models.some(({ quantities }) => doubleOf(quantities[unit]) > 0));
  return (
    <Card title={`Usage in ${days} days, by model`} id="models">
      <Table
        label="Usage by model"
        csv="usage-by-model"
        head={["Model", numberHead("Events"), ...units.map(unitHead)]}
        empty=""
        rows={models.map(({ model, events, quantities }) => [
          model ?? <span class="soft">none</span>,
          amountText(events),
          ...units.map((unit) => <BareAmount of={quantities[unit] ?? 0} unit={unit} />),
        ])}
      />
      <p class="soft">
        Summed some minutes after each event.{isPartial ? " There is more usage than is added up here." : ""}
      </p>
    </Card>
  );
};

interface HoldsProps {
  readonly reservations: readonly ReservationOutput[];
  readonly isAll: boolean;
}

/** Shows the user's open reservations, each with a link to its page, where it can be released. */
export const Holds = ({ reservations, isAll }: HoldsProps) => (
  <Card title="Open reservations" id="holds">
    <Table
      label="Open reservations"
      csv="reservations"
      head={["Reservation", "Event", "Holds", "Expires", ""]}
      empty=""
      rows={reservations.map((reservation) => [
        <ReservationLink id={reservation.reservationId} />,
        [reservation.event, reservation.model].filter((part) => part !== null).join(" · "),
        <span class="num">
          <AmountList of={reservation.holds} />
        </span>,
        <span class="num">
          {timeText(reservation.expiresAt)}, then {reservation.onExpiry === "charge" ? "charged" : "returned"}
        </span>,
        <AppLink to={releasePath(reservation)} aria-label={`Release ${reservation.reservationId}`}>
          Release
        </AppLink>,
      ])}
    />
    {!isAll && <p class="soft">Only the newest {reservations.length} are shown.</p>}
  </Card>
);
