import {
  eventOutput,
  releaseOutput,
  reservationOutput,
  reservationsOutput,
  reserveOutput,
} from "../../books/usage/responses.ts";
import {
  commitInput,
  extendInput,
  reservationParams,
  reservationsInput,
  reserveInput,
} from "../../books/usage/schemas.ts";
import type { Operation } from "../operation.ts";
import { EXAMPLE } from "./common.ts";

const { balanceId, packId, eventId } = EXAMPLE;
const reservationId = "res_7hWk3yB5nC0eUi9fMvS4Lx";
const exampleDebit = { balanceId, packId, unit: "tokens", amount: 120, remaining: 280 };

/** An example of the response to a usage event, and of the response to a commit. */
export const exampleDebits = { eventId, debits: [exampleDebit], uncovered: null };

const reservation = {
  reservationId,
  userId: "user_42",
  event: "chat.completed",
  model: null,
  quantities: { count: 1, tokens: 120 },
  onExpiry: "return",
  status: "open",
  createdAt: "2026-01-16T08:30:00.000Z",
  expiresAt: "2026-01-16T08:31:00.000Z",
  settledAt: null,
  eventId: null,
  holds: [{ balanceId, packId, unit: "tokens", amount: 120 }],
};

export const reservationOperations: readonly Operation[] = [
  {
    id: "createReservation",
    method: "post",
    path: "/api/v1/usage/reservations",
    tag: "Usage",
    summary: "Create a reservation",
    description:
      "Holds the credits that the usage may cost: all or nothing. The hold ends when the reservation is committed, released " +
      "or expires. Held credits pay for their commit or charge even if their balance has expired since, but not if it was revoked. " +
      'With your own `reservationId` the call is idempotent. With `onExpiry: "charge"` a reservation that nobody ' +
      "settled in time is committed with the reserved quantities, as an event whose `eventId` is the `reservationId`.",
    access: "secret",
    body: {
      schema: reserveInput,
      example: { userId: "user_42", event: "chat.completed", quantities: { tokens: 120 }, expiresInSeconds: 60 },
    },
    success: {
      description: "The reservation.",
      schema: reserveOutput,
      example: { reservationId, expiresAt: "2026-01-16T08:31:00.000Z", holds: [exampleDebit] },
      replayable: true,
      warns: true,
    },
    errors: ["insufficient_credits", "idempotency_conflict", "usage_limit_reached"],
    writesForId: "refused",
  },
  {
    id: "listReservations",
    method: "get",
    path: "/api/v1/usage/reservations",
    tag: "Usage",
    summary: "List a user's reservations",
    description:
      "Returns the user's reservations, newest first, of one status or of all. An expired reservation whose holds " +
      "have not returned yet already has its later status, and no `settledAt`.",
    access: "secret",
    query: reservationsInput,
    success: {
      description: "A page of reservations.",
      schema: reservationsOutput,
      example: { reservations: [reservation], nextCursor: null },
    },
    errors: [],
  },
  {
    id: "getReservation",
    method: "get",
    path: "/api/v1/usage/reservations/{reservationId}",
    tag: "Usage",
    summary: "Get a reservation",
    description:
      "Returns the current state of a reservation. An expired reservation whose holds have not returned yet already " +
      "has its later status, and no `settledAt`.",
    access: "secret",
    params: reservationParams,
    success: { description: "The reservation.", schema: reservationOutput, example: reservation },
    errors: ["reservation_not_found"],
  },
  {
    id: "commitReservation",
    method: "post",
    path: "/api/v1/usage/reservations/{reservationId}/commit",
    tag: "Usage",
    summary: "Commit a reservation",
    description:
      "Releases the holds and debits the actual usage in one transaction. The usage may be less or more than was held. The " +
      "balances of the holds pay first; one that has expired since pays what is held of it. A `model` replaces the " +
      "reservation's. A commit after the reservation expired counts as a plain event, unless the " +
      "reservation was charged. On 402 the hold remains.",
    access: "secret",
    params: reservationParams,
    body: { schema: commitInput, example: { eventId, quantities: { tokens: 120 } } },
    success: { description: "The debits.", schema: eventOutput, example: exampleDebits, replayable: true, warns: true },
    errors: ["insufficient_credits", "idempotency_conflict", "reservation_not_found", "reservation_closed"],
    writesForId: "refused",
  },
  {
    id: "extendReservation",
    method: "post",
    path: "/api/v1/usage/reservations/{reservationId}/extend",
    tag: "Usage",
    summary: "Extend a reservation",
    description:
      "Moves the expiry of an open reservation to `expiresInSeconds` from now. The expiry never becomes earlier, " +
      "and is at most a day after the reservation was created.",
    access: "secret",
    params: reservationParams,
    body: { schema: extendInput, example: { expiresInSeconds: 120 } },
    success: {
      description: "The reservation with its new end.",
      schema: reservationOutput,
      example: { ...reservation, expiresAt: "2026-01-16T08:32:30.000Z" },
    },
    errors: ["reservation_not_found", "reservation_closed"],
    writesForId: "refused",
  },
  {
    id: "releaseReservation",
    method: "post",
    path: "/api/v1/usage/reservations/{reservationId}/release",
    tag: "Usage",
    summary: "Release a reservation",
    description:
      "Returns the held credits. Releasing the reservation again, or after it expired, returns the same result. A " +
      "reservation that was committed or charged is closed.",
    access: "secret",
    params: reservationParams,
    success: {
      description: "The amounts returned to each balance.",
      schema: releaseOutput,
      example: { reservationId, status: "released", returned: [{ balanceId, packId, unit: "tokens", amount: 120 }] },
    },
    errors: ["reservation_not_found", "reservation_closed"],
    writesForId: "refused",
  },
];
