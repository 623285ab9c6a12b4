import * as z from "zod";
import { heldAmount, metersAndVersion, quantitiesOutput } from "../../books/amounts/amount-fields.ts";
import { EXPIRES_IN_SECONDS_MAX } from "../../books/usage/reservations.ts";
import { time } from "../../http/output-fields.ts";
import { EXAMPLE } from "../common.ts";

const { balanceId, packId } = EXAMPLE;

export const reservationId = "res_7hWk3yB5nC0eUi9fMvS4Lx";

export const exampleDebit = { balanceId, packId, unit: "tokens", amount: 120, remaining: 280 };

export const reservation = {
  reservationId,
  userId: "user_42",
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

export const reservationStatus = z.lazy(() =>
  z.enum(["open", "committed", "released", "expired"]).meta({
    id: "ReservationStatus",
  }),
);

const SECONDS_RANGE = `must be from 1 to ${EXPIRES_IN_SECONDS_MAX}`;

export const expiresInSeconds = z.lazy(() => z.int().min(1, SECONDS_RANGE).max(EXPIRES_IN_SECONDS_MAX, SECONDS_RANGE));

export const onExpiry = z.lazy(() => z.enum(["return", "charge"]).meta({ id: "OnExpiry" }));

export const reservationParams = z.lazy(() =>
  z.object({
    reservationId: z.string().describe("The id of the reservation, `res_…`."),
  }),
);

export const reservationOutput = z.lazy(() =>
  z
    .strictObject({
      reservationId: z.string(),
      userId: z.string(),
      event: z.string(),
      model: z.string().nullable(),
      quantities: quantitiesOutput,
      ...metersAndVersion(),
      onExpiry: onExpiry.describe("Whether the holds are returned or charged when it expires."),
      status: reservationStatus.describe(
        "A reservation that has expired, but whose holds are not returned yet, already has its final status.",
      ),
      createdAt: time,
      expiresAt: time,
      settledAt: time.nullable().describe("When its holds were returned. Null until then."),
      eventId: z.string().nullable().describe("The event with which it was committed, in time or late."),
      holds: z.array(heldAmount).describe("The amounts that it holds, or held."),
    })
    .meta({ id: "Reservation" }),
);
