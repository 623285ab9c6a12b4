import * as z from "zod";
import { hold } from "../../books/amounts/amount-fields.ts";
import { createReservation } from "../../books/usage/reserve.ts";
import { prefixedIdentifier, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { KEY, reservationNames, SECONDS_NAMES, usageNames } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { isOneOf, usageFields } from "../usage/usage-shapes.ts";
import { exampleDebit, expiresInSeconds, onExpiry, reservationId } from "./reservation-shapes.ts";

const reserveOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      reservationId: z.string().meta(words("The reservation's id.", "res_7hWk3yB5nC0eUi9fMvS4Lx")),
      expiresAt: time.meta(words("When it expires.", "2026-01-16T08:31:00.000Z")),
      holds: z.array(hold).meta(words("The held amounts, and the remaining amount of each balance.")),
    })
    .meta({ id: "CreatedReservation" }),
);

const EXPIRES_IN_SECONDS_DEFAULT = 300;

export const reserveInput = lazy(() => {
  const { memberId, event, model, quantities, meters } = usageFields();
  return z
    .strictObject({
      reservationId: prefixedIdentifier("res_")
        .optional()
        .meta(words("Your own id makes the call idempotent.", "res_7hWk3yB5nC0eUi9fMvS4Lx")),
      userId,
      memberId,
      event,
      model,
      quantities,
      meters,
      expiresInSeconds: expiresInSeconds
        .default(EXPIRES_IN_SECONDS_DEFAULT)
        .meta(words("How long the credits are held.", 60)),
      onExpiry: onExpiry
        .default("return")
        .meta(
          words(
            "When it expires: return the holds, or charge the reserved quantities as an event with its id.",
            "return",
          ),
        ),
    })
    .refine(({ quantities, meters }) => quantities !== undefined || meters !== undefined, {
      path: ["quantities"],
      message: "or `meters` is required",
    })
    .refine(...isOneOf)
    .meta({
      id: "CreateReservation",
      wrongNames: {
        reservationId: `holdId ${KEY}`,
        ...usageNames,
        expiresInSeconds: SECONDS_NAMES,
        ...reservationNames,
      },
    });
});

export default operation({
  id: "createReservation",
  method: "post",
  path: "/api/v1/usage/reservations",
  tag: "Usage",
  access: secretKey(),
  body: reserveInput,
  errors: ["insufficient_credits", "price_not_found", "idempotency_conflict", "usage_limit_reached"],
  replayable: true,
  warns: true,
  writesForId: "rejected",
  idempotent: { field: "reservationId", prefix: "res_" },
  ...(WITH_REFERENCE && {
    output: () => reserveOutput,
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
  }),
  handler: (ctx, { body }) => createReservation(ctx, body),
});
