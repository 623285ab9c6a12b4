import { createReservation } from "../../books/usage/reserve.ts";
import { reserveOutput } from "../../books/usage/responses.ts";
import { reserveInput } from "../../books/usage/schemas.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { exampleDebit, reservationId } from "./shapes.ts";

export default operation({
  id: "createReservation",
  method: "post",
  path: "/api/v1/usage/reservations",
  tag: "Usage",
  access: secretKey(),
  body: reserveInput,
  output: () => reserveOutput,
  errors: ["insufficient_credits", "idempotency_conflict", "usage_limit_reached"],
  replayable: true,
  warns: true,
  writesForId: "refused",
  summary: "Create a reservation",
  description:
    "Holds the credits that the usage may cost: all or nothing. The hold ends when the reservation is committed, released " +
    "or expires. Held credits pay for their commit or charge even if their balance has expired since, but not if it was revoked. " +
    'With your own `reservationId` the call is idempotent. With `onExpiry: "charge"` a reservation that nobody ' +
    "settled in time is committed with the reserved quantities, as an event whose `eventId` is the `reservationId`.",
  returns: "The reservation.",
  example: () => ({
    body: { userId: "user_42", event: "chat.completed", quantities: { tokens: 120 }, expiresInSeconds: 60 },
    output: { reservationId, expiresAt: "2026-01-16T08:31:00.000Z", holds: [exampleDebit] },
  }),
  handler: (ctx, { body }) => createReservation(ctx, body),
});
