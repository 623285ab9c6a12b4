import { readUsageEvent } from "../books/usage/describe-events.ts";
import { readReservation } from "../books/usage/read-reservation.ts";
import { previewRelease, releaseReservation } from "../books/usage/release.ts";
import type { PurserError } from "../errors.ts";
import { callVerb } from "../http/factory.ts";
import { AppLink, LinkButton } from "./app-link.tsx";
import { Facts, numberHead, type ShownFact, Table, Tag } from "./components.tsx";
import { askRoutes, confirmPage } from "./confirm.tsx";
import type { Form, PageContext } from "./form.ts";
import { quantitiesText, timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { BalanceLink, EventLink, ReservationLink, releasePath, toUser, UserLink, userPath } from "./links.tsx";
import { BareAmount, BeforeAfter, CostAmount, QuantityList, UnitAmount } from "./unit-amount.tsx";

/** Shows a usage event: the quantities, and who paid. */
async function eventPage(c: PageContext, eventId: string) {
  const event = await readUsageEvent(c.var.ctx, eventId);
  return page(
    c,
    { title: `Event ${event.event}`, section: "users" },
    <section class="card">
      <Facts
        of={[
          ["Event id", <code>{eventId}</code>],
          ["User", <UserLink id={event.userId} />],
          ["Model", event.model ?? "none"],
          ["Used", <QuantityList of={event.quantities} />],
          ...(event.meters !== null
            ? ([
                ["Meters", quantitiesText(event.meters) || "none"],
                ["Priced by", <AppLink to={`prices/${event.priceVersion}`}>version {event.priceVersion}</AppLink>],
                ["Your own cost", event.cost === null ? "unknown" : <CostAmount of={event.cost} />],
              ] as const)
            : []),
          ["Not covered", <QuantityList of={event.uncovered ?? {}} none="nothing" />],
          ["Occurred (UTC)", timeText(event.occurredAt)],
          ["Received (UTC)", timeText(event.receivedAt)],
          event.reservationId !== null && ["Reservation", <ReservationLink id={event.reservationId} />],
        ]}
      />
      <h3>Debits</h3>
      <Table
        label="Debits"
        csv="debits"
        head={["Balance", numberHead("Amount"), "Remaining afterwards"]}
        empty="No debits."
        rows={event.debits.map((debit) => [
          <BalanceLink id={debit.balanceId} />,
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

/** Shows a reservation and the amounts that it holds. */
async function reservationPage(c: PageContext, reservationId: string, rejection?: PurserError) {
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
            ["User", <UserLink id={reservation.userId} />],
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
            reservation.eventId !== null && ["Event", <EventLink id={reservation.eventId} />],
          ]}
        />
        <h3>Holds</h3>
        <Table
          label="Holds"
          csv="holds"
          head={["Balance", numberHead("Amount")]}
          empty="No holds."
          rows={reservation.holds.map((hold) => [
            <BalanceLink id={hold.balanceId} />,
            <span class="num">
              <UnitAmount of={hold.amount} unit={hold.unit} />
            </span>,
          ])}
        />
      </section>
      {reservation.status === "open" && (
        <p>
          <LinkButton text="Release reservation" to={releasePath(reservation)} />
        </p>
      )}
    </>,
  );
}

/** Shows what a release returns to each balance, and asks to confirm it. */
async function releasePage(c: PageContext, form: Form, rejection?: PurserError) {
  const { reservationId = "" } = form;
  const [{ userId }, balances] = await Promise.all([
    readReservation(c.var.ctx, reservationId),
    previewRelease(c.var.ctx, reservationId),
  ]);
  return confirmPage(
    c,
    {
      fields: { reservationId, userId },
      button: "Release reservation",
      cancel: userPath(userId),
      rejection,
      facts: [
        ["User", userId],
        ["Reservation", <code>{reservationId}</code>],
        ...balances.map(
          ({ balanceId, packName, unit, from, to }): ShownFact => [
            <AppLink to="users/balance" fields={{ balanceId }}>
              {packName}
            </AppLink>,
            <BeforeAfter from={from} to={to} unit={unit} />,
          ],
        ),
      ],
    },
    "The reservation can no longer be committed.",
  );
}

async function release(c: PageContext) {
  await callVerb(c, (ctx) => releaseReservation(ctx, c.var.form.reservationId ?? ""));
  return toUser(c.var.form, "released");
}

export const eventPages = askRoutes(
  "/users/reservation/release",
  releasePage,
  release,
  (c, { reservationId = "" }, rejection) => reservationPage(c, reservationId, rejection),
)
  .get("/users/event", (c) => eventPage(c, c.req.query("eventId") ?? ""))
  .get("/users/reservation", (c) => reservationPage(c, c.req.query("reservationId") ?? ""));
