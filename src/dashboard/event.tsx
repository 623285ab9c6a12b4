import type { Context } from "hono";
import { releaseReservation } from "../books/usage/commit.ts";
import { readUsageEvent } from "../books/usage/describe-events.ts";
import { readReservation } from "../books/usage/read-reservation.ts";
import type { PurserError } from "../errors.ts";
import { Facts, numberHead, Table, Tag } from "./components.tsx";
import { Confirm } from "./confirm.tsx";
import { catchRejection, createDashboardRoutes, type DashboardEnv } from "./form.ts";
import { amountText, quantitiesText, queryString, timeText } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { BalanceLink, EventLink, ReservationLink, UserLink, userPath } from "./links.tsx";
import { AmountList, BareAmount, QuantityList, UnitAmount } from "./unit-amount.tsx";

/** Shows a usage event: the quantities, and who paid. */
async function eventPage(c: Context<DashboardEnv>, eventId: string) {
  const event = await readUsageEvent(c.var.ctx, eventId);
  return page(
    c,
    { title: `Event ${event.event}`, section: "users" },
    <section class="card">
      <Facts
        of={[
          ["Event id", <code>{eventId}</code>],
          ["User", <UserLink c={c} id={event.userId} />],
          ["Model", event.model ?? "none"],
          ["Used", <QuantityList of={event.quantities} />],
          ...(event.meters !== null
            ? ([
                ["Meters", quantitiesText(event.meters) || "none"],
                ["Priced by", <a href={pathIn(c, `prices/${event.priceVersion}`)}>version {event.priceVersion}</a>],
                ["Your own cost", event.cost === null ? "unknown" : `${amountText(event.cost)} cents`],
              ] as const)
            : []),
          ["Not covered", <QuantityList of={event.uncovered ?? {}} none="nothing" />],
          ["Occurred (UTC)", timeText(event.occurredAt)],
          ["Received (UTC)", timeText(event.receivedAt)],
          event.reservationId !== null && ["Reservation", <ReservationLink c={c} id={event.reservationId} />],
        ]}
      />
      <h3>Debits</h3>
      <Table
        label="Debits"
        csv="debits"
        head={["Balance", numberHead("Amount"), "Remaining afterwards"]}
        empty="No debits."
        rows={event.debits.map((debit) => [
          <BalanceLink c={c} id={debit.balanceId} />,
          <span class="num">
            <UnitAmount of={debit.amount} unit={debit.unit} />
          </span>,
          <span class="num">
            <BareAmount of={debit.remaining} unit={debit.unit} />
          </span>,
        ])}
      />
    </section>,
  );
}

/** Shows a reservation: the amounts it holds, and a form that releases it. */
async function reservationPage(c: Context<DashboardEnv>, reservationId: string, rejection?: PurserError) {
  const reservation = await readReservation(c.var.ctx, reservationId);
  return page(
    c,
    { title: `Reservation ${reservation.event}`, section: "users", rejection },
    <>
      <section class="card">
        <Facts
          of={[
            [
              "Reservation id",
              <>
                <code>{reservationId}</code> <Tag kind={reservation.status}>{reservation.status}</Tag>
              </>,
            ],
            ["User", <UserLink c={c} id={reservation.userId} />],
            ["Model", reservation.model ?? "none"],
            ["Reserved", <QuantityList of={reservation.quantities} />],
            ["Created (UTC)", timeText(reservation.createdAt)],
            [
              "Expires (UTC)",
              <>
                {timeText(reservation.expiresAt)}
                {reservation.status === "open"
                  ? `, then it is ${reservation.onExpiry === "charge" ? "charged" : "returned"}`
                  : ""}
              </>,
            ],
            ["Settled (UTC)", timeText(reservation.settledAt, "not yet")],
            reservation.eventId !== null && ["Event", <EventLink c={c} id={reservation.eventId} />],
          ]}
        />
        <h3>Holds</h3>
        <Table
          label="Holds"
          csv="holds"
          head={["Balance", numberHead("Amount")]}
          empty="No holds."
          rows={reservation.holds.map((hold) => [
            <BalanceLink c={c} id={hold.balanceId} />,
            <span class="num">
              <UnitAmount of={hold.amount} unit={hold.unit} />
            </span>,
          ])}
        />
      </section>
      {reservation.status === "open" && <Release c={c} reservation={reservation} />}
    </>,
  );
}

interface ReleaseProps {
  readonly c: Context<DashboardEnv>;
  readonly reservation: Awaited<ReturnType<typeof readReservation>>;
}

const Release = ({ c, reservation: { reservationId, userId, holds } }: ReleaseProps) => (
  <Confirm
    c={c}
    action="users/reservation/release"
    fields={{ reservationId, userId }}
    button="Release reservation"
    cancel={userPath(userId)}
  >
    <p>
      <AmountList of={holds} none="Nothing" /> can be spent again. The reservation can no longer be committed.
    </p>
  </Confirm>
);

export const eventPages = createDashboardRoutes()
  .get("/users/event", (c) => eventPage(c, c.req.query("eventId") ?? ""))
  .get("/users/reservation", (c) => reservationPage(c, c.req.query("reservationId") ?? ""))
  .post("/users/reservation/release", async (c) => {
    const { userId, reservationId = "" } = c.var.form;
    const done = await catchRejection(() => releaseReservation(c.var.ctx, reservationId));
    return done.rejection === undefined
      ? c.redirect(`${pathIn(c, "users")}${queryString({ userId, notice: "released" })}`, 303)
      : reservationPage(c, reservationId, done.rejection);
  });
