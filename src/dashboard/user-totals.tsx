import type { Context } from "hono";
import type { readUserTotals } from "../books/credits/user-totals.ts";
import type { ReservationOutput } from "../books/usage/responses.ts";
import { Table } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import { amount, query, time } from "./format.ts";
import { pathIn } from "./layout.tsx";
import { quantitiesText, ReservationLink } from "./links.tsx";

/** What the user has, by unit. */
export const Totals = ({ totals }: { totals: Awaited<ReturnType<typeof readUserTotals>> }) => (
  <section class="card" id="totals">
    <h2>Total</h2>
    {totals.units.length === 0 && <p class="empty">Nothing can be spent now.</p>}
    <dl class="facts">
      {totals.units.map(({ unit, remaining, held }) => (
        <>
          <dt>{unit}</dt>
          <dd>
            <b class="num">{amount(remaining)}</b> can be spent now
            {held > 0 ? `, and ${amount(held)} more are held by open reservations` : ""}
          </dd>
        </>
      ))}
    </dl>
    {totals.isPartial && (
      <p class="soft">At least: only {amount(totals.balances)} balances and reservations are added up.</p>
    )}
  </section>
);

interface HoldsProps {
  readonly c: Context<DashboardEnv>;
  readonly reservations: readonly ReservationOutput[];
  readonly isAll: boolean;
}

/** The user's open reservations, each with a link to its page, which releases it. */
export const Holds = ({ c, reservations, isAll }: HoldsProps) => (
  <section class="card" id="holds">
    <h2>Open reservations</h2>
    <Table
      label="Open reservations"
      head={["Reservation", "Event", "Holds", "Expires", ""]}
      empty=""
      rows={reservations.map((reservation) => [
        <ReservationLink c={c} id={reservation.reservationId} />,
        [reservation.event, reservation.model].filter((part) => part !== null).join(" · "),
        <span class="num">
          {reservation.holds.map((hold) => quantitiesText({ [hold.unit]: hold.amount })).join(", ")}
        </span>,
        <span class="num">
          {time(reservation.expiresAt)}, then {reservation.onExpiry === "charge" ? "charged" : "returned"}
        </span>,
        <a
          href={`${pathIn(c, "users/reservation")}${query({ reservationId: reservation.reservationId })}`}
          aria-label={`Release ${reservation.reservationId}`}
        >
          Release
        </a>,
      ])}
    />
    {!isAll && <p class="soft">Only the newest {reservations.length} are shown.</p>}
  </section>
);
