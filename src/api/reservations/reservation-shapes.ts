import * as z from "zod";
import { heldAmount, metersAndVersion, quantitiesOutput } from "../../books/amounts/amount-fields.ts";
import { EXPIRES_IN_SECONDS_MAX } from "../../books/usage/stored-reservation.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { EXAMPLE } from "../common.ts";

const { balanceId, packId } = EXAMPLE;

export const reservationId = "res_7hWk3yB5nC0eUi9fMvS4Lx";

export const exampleDebit = { balanceId, packId, unit: "tokens", amount: 120, remaining: 280 };

export const reservation = {
  reservationId,
  userId: "user_42",
  memberId: null,
  event: "chat.completed",
  model: null,
  quantities: { count: 1, tokens: 120 },
  ...{ meters: null, priceVersion: null },
  onExpiry: "return",
  status: "open",
  createdAt: "2026-01-16T08:30:00.000Z",
  expiresAt: "2026-01-16T08:31:00.000Z",
  settledAt: null,
  eventId: null,
  holds: [{ balanceId, packId, unit: "tokens", amount: 120 }],
};

export const reservationStatus = lazy(() =>
  z.enum(["open", "committed", "released", "expired"]).meta({
    id: "ReservationStatus",
    ...words("The status.", "open"),
  }),
);

const SECONDS_RANGE = `must be from 1 to ${EXPIRES_IN_SECONDS_MAX}`;

export const expiresInSeconds = lazy(() => z.int().min(1, SECONDS_RANGE).max(EXPIRES_IN_SECONDS_MAX, SECONDS_RANGE));

export const onExpiry = lazy(() => z.enum(["return", "charge"]).meta({ id: "OnExpiry" }));

export const reservationParams = lazy(() =>
  z.object({
    reservationId: z.string().meta(words("The id of the reservation, `res_…`.", "res_7hWk3yB5nC0eUi9fMvS4Lx")),
  }),
);

export const reservationOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      reservationId: z.string().meta(words("The reservation's id.", "res_7hWk3yB5nC0eUi9fMvS4Lx")),
      userId: z.string().meta(words("Your own id of the user.", "user_42")),
      memberId: z.string().nullable().meta(words("The member who used it. Null for none.", "user_7")),
      event: z.string().meta(words("The event's name.", "chat.completed")),
      model: z.string().nullable().meta(words("The model. Null if the event has none.", "large-1")),
      quantities: quantitiesOutput.meta(words("The usage in each unit.")),
      ...metersAndVersion(),
      onExpiry: onExpiry.meta(words("Whether the holds are returned or charged when it expires.", "return")),
      status: reservationStatus.meta(
        words(
          "A reservation that has expired, but whose holds are not returned yet, already has its final status.",
          "open",
        ),
      ),
      createdAt: time.meta(words("When it was created.", "2026-01-16T08:30:00.000Z")),
      expiresAt: time.meta(words("When it expires.", "2026-01-16T08:31:00.000Z")),
      settledAt: time
        .nullable()
        .meta(words("When its holds were returned. Null until then.", "2026-01-16T08:30:12.000Z")),
      eventId: z
        .string()
        .nullable()
        .meta(words("The event with which it was committed, in time or late.", "chat-2026-01-16-0001")),
      holds: z.array(heldAmount).meta(words("The amounts that it holds, or held.")),
    })
    .meta({ id: "Reservation" }),
);
