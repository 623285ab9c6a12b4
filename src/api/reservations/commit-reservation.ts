import * as z from "zod";
import { commitReservation } from "../../books/usage/commit.ts";
import { lazy } from "../../http/lazy.ts";
import { eventNames, KEY, quantityNames } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { eventIdInput, eventOutput, exampleDebits, isOneOf, usageFields } from "../usage/usage-shapes.ts";
import { reservationParams } from "./reservation-shapes.ts";

export const commitInput = lazy(() => {
  const { model, quantities, meters, occurredAt, properties, onShortage } = usageFields();
  return z
    .strictObject({
      eventId: eventIdInput().meta(
        words(
          "Your own id of the event: its idempotency key. It does not expire. It must not begin with `res_`.",
          "chat-2026-01-16-0001",
        ),
      ),
      model: model.meta(
        words(
          "The model that was used, if it is not the reserved one. The usage is matched and counted by it.",
          "large-1",
        ),
      ),
      quantities,
      meters,
      occurredAt,
      properties,
      onShortage,
    })
    .refine(({ quantities, meters }) => quantities !== undefined || meters !== undefined, {
      path: ["quantities"],
      message: "or `meters` is required",
    })
    .refine(...isOneOf)
    .meta({
      id: "CommitReservation",
      wrongNames: {
        eventId: KEY,
        ...quantityNames,
        ...eventNames,
        "!it is the reservation's: leave it out": "userId event model reservationId",
      },
    });
});

const { eventId } = EXAMPLE;

export default operation({
  id: "commitReservation",
  method: "post",
  path: "/api/v1/usage/reservations/{reservationId}/commit",
  tag: "Usage",
  access: secretKey(),
  params: reservationParams,
  body: commitInput,
  errors: [
    "insufficient_credits",
    "price_not_found",
    "idempotency_conflict",
    "reservation_not_found",
    "reservation_closed",
  ],
  replayable: true,
  warns: true,
  writesForId: "rejected",
  idempotent: { field: "eventId" },
  ...(WITH_REFERENCE && {
    output: () => eventOutput,
    summary: "Commit a reservation",
    description:
      "Releases the holds and debits the actual usage in one transaction. The usage may be less or more than was held. The " +
      "balances of the holds pay first; one that has expired since pays what is held of it. A `model` replaces the " +
      "reservation's. A commit after the reservation expired counts as a plain event, unless the " +
      "reservation was charged. On 402 the hold remains.",
    returns: "The debits.",
    example: () => ({ body: { eventId, quantities: { tokens: 120 } }, output: exampleDebits }),
  }),
  handler: (ctx, { params, body }) => commitReservation(ctx, params.reservationId, body),
});
