import * as z from "zod";
import { eventListOutput, eventOutput, releaseOutput, reserveOutput, totalsOutput } from "../../usage/responses.ts";
import {
  cloudEvent,
  commitInput,
  eventInput,
  eventsMax,
  reservationParams,
  reserveInput,
  totalsInput,
} from "../../usage/schemas.ts";
import type { Operation } from "../describe.ts";

const balanceId = "crb_5cQx2vN8bT0rKf7yLwZ3Hd";
const packId = "cpk_1mVt9sD4gE6uXa8oPzJ2Rq";
const eventId = "chat-2026-01-16-0001";
const reservationId = "res_7hWk3yB5nC0eUi9fMvS4Lx";
const paid = { balanceId, packId, unit: "tokens", amount: 120, remaining: 280 };

const event = {
  eventId,
  userId: "user_42",
  event: "chat.completed",
  model: "large-2",
  quantities: { tokens: 120 },
  properties: { conversation: "c_17" },
};

const cloud = {
  specversion: "1.0",
  id: eventId,
  source: "/meters/chat",
  type: "chat.completed",
  subject: "user_42",
  time: "2026-01-16T08:30:00Z",
  data: { model: "large-2", quantities: { tokens: 120 } },
};

const answer = { eventId, debits: [paid], uncovered: null };

export const usageOperations: readonly Operation[] = [
  {
    id: "recordUsage",
    method: "post",
    path: "/api/v1/usage/events",
    tag: "Usage",
    summary: "Record usage and debit it",
    description:
      "Records what a user used, once for each `eventId`, and debits the balances that pay for it, in the order of the " +
      "list of credits: each pays the share of the event that it can, in its own unit. When credits are short, " +
      "`reject` records nothing (402; the same id may be tried again) and `partial` debits what there is. A list of " +
      "up to 100 is answered with a list, each event for itself. CloudEvents 1.0 are read as well: `id` as eventId, " +
      "`subject` as userId, `type` as event, `time` as occurredAt.",
    access: "secret",
    body: {
      schema: z.union([eventInput, z.array(eventInput).max(eventsMax)]),
      example: event,
      alternatives: {
        "application/cloudevents+json": { schema: cloudEvent, example: cloud },
        "application/cloudevents-batch+json": { schema: z.array(cloudEvent).max(eventsMax), example: [cloud] },
      },
    },
    success: {
      description: "What was debited; for a list, the answer or the error of each event, in order.",
      schema: z.union([eventOutput, eventListOutput]),
      example: answer,
      replayable: true,
      headers: {
        "retry-after":
          "Of a list in which an event has the error `temporarily_unavailable`: seconds to wait before it is sent again.",
      },
    },
    errors: ["insufficient_credits", "idempotency_conflict"],
  },
  {
    id: "reserveUsage",
    method: "post",
    path: "/api/v1/usage/reservations",
    tag: "Usage",
    summary: "Hold credits for usage to come",
    description:
      "Holds what the usage may cost, all of it or nothing, until it is committed, released or expires. Under a " +
      "`reservationId` of your own it is made once, however often it is sent.",
    access: "secret",
    body: {
      schema: reserveInput,
      example: { userId: "user_42", event: "chat.completed", quantities: { tokens: 120 }, expiresInSeconds: 60 },
    },
    success: {
      description: "What each balance holds.",
      schema: reserveOutput,
      example: { reservationId, expiresAt: "2026-01-16T08:31:00.000Z", holds: [paid] },
      replayable: true,
    },
    errors: ["insufficient_credits", "idempotency_conflict"],
  },
  {
    id: "commitReservation",
    method: "post",
    path: "/api/v1/usage/reservations/{reservationId}/commit",
    tag: "Usage",
    summary: "Debit what a reservation was for",
    description:
      "The holds come back and the actual usage is debited, in one write: less, the same or more than was held. The " +
      "balances that were held pay first. After the reservation expired it still counts, as a plain event. Short of " +
      "credits (402) the hold stands.",
    access: "secret",
    params: reservationParams,
    body: { schema: commitInput, example: { eventId, quantities: { tokens: 120 } } },
    success: { description: "What was debited.", schema: eventOutput, example: answer, replayable: true },
    errors: ["insufficient_credits", "idempotency_conflict", "reservation_not_found", "reservation_closed"],
  },
  {
    id: "releaseReservation",
    method: "post",
    path: "/api/v1/usage/reservations/{reservationId}/release",
    tag: "Usage",
    summary: "Give a reservation up",
    description:
      "The holds come back. Again, or after the reservation expired: the same answer, nothing happens twice.",
    access: "secret",
    params: reservationParams,
    success: {
      description: "What came back to each balance.",
      schema: releaseOutput,
      example: { reservationId, status: "released", returned: [{ balanceId, packId, unit: "tokens", amount: 120 }] },
    },
    errors: ["reservation_not_found", "reservation_closed"],
  },
  {
    id: "readUsage",
    method: "get",
    path: "/api/v1/usage",
    tag: "Usage",
    summary: "Read what a user used",
    description: "Quantities used, by event and unit, of the events that occurred in `[from, to)`. Not debits.",
    access: "secret",
    query: totalsInput,
    success: {
      description: "The totals; what was not used is not listed.",
      schema: totalsOutput,
      example: { totals: [{ event: "chat.completed", unit: "tokens", amount: 1_200 }] },
    },
    errors: [],
  },
];
