import { readUsageEvent } from "../books/usage/describe-events.ts";
import { type ReservationOutput, readReservation } from "../books/usage/read-reservation.ts";
import { previewRelease, releaseReservation } from "../books/usage/release.ts";
import type { PurserError } from "../errors.ts";
import { callVerb } from "../http/factory.ts";
import { AppLink, LinkButton } from "./app-link.tsx";
import { balanceColumn, quantityColumn } from "./columns.tsx";
import { Facts, type ShownFact, Tag } from "./components.tsx";
import { askRoutes, confirmPage } from "./confirm.tsx";
import type { Form, PageContext } from "./form.ts";
import { amountText, quantitiesText, timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { EventLink, ReservationLink, releasePath, toUser, UserLink, userPath } from "./links.tsx";
import { RowsTable } from "./list.tsx";
import type { ListColumn } from "./read-list.ts";
import { BeforeAfter, QuantityList } from "./unit-amount.tsx";

type EventOfPage = Awaited<ReturnType<typeof readUsageEvent>>;

const DEBIT_COLUMNS: readonly ListColumn<EventOfPage["debits"][number]>[] = [
  balanceColumn,
  quantityColumn("amount", "Amount", ({ amount, unit }) => [amount, unit]),
  quantityColumn("remaining", "Remaining afterwards", ({ remaining, unit }) => [remaining, unit]),
];

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
          event.memberId !== null && ["Member", <UserLink id={event.memberId} />],
          ["Model", event.model ?? "none"],
          ["Used", <QuantityList of={event.quantities} />],
          ...(event.meters !== null
            ? ([
                ["Meters", quantitiesText(event.meters) || "none"],
                ["Priced by", <AppLink to={`prices/${event.priceVersion}`}>version {event.priceVersion}</AppLink>],
                ["Your own cost", event.cost === null ? "unknown" : `${amountText(event.cost)} cents`],
              ] as const)
            : []),
          ["Not covered", <QuantityList of={event.uncovered ?? {}} none="nothing" />],
          ["Occurred (UTC)", timeText(event.occurredAt)],
          ["Received (UTC)", timeText(event.receivedAt)],
          event.reservationId !== null && ["Reservation", <ReservationLink id={event.reservationId} />],
        ]}
      />
      <h3>Debits</h3>
      <RowsTable label="Debits" csv="debits" columns={DEBIT_COLUMNS} rows={event.debits} empty="No debits." />
    </section>,
  );
}

const HOLD_COLUMNS: readonly ListColumn<ReservationOutput["holds"][number]>[] = [
  balanceColumn,
  quantityColumn("amount", "Amount", ({ amount, unit }) => [amount, unit]),
];

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
            reservation.memberId !== null && ["Member", <UserLink id={reservation.memberId} />],
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
        <RowsTable label="Holds" csv="holds" columns={HOLD_COLUMNS} rows={reservation.holds} empty="No holds." />
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
