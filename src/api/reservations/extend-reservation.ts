import * as z from "zod";
import { extendReservation } from "../../books/usage/extend.ts";
import { lazy } from "../../http/lazy.ts";
import { SECONDS_NAMES } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";

import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { expiresInSeconds, reservation, reservationOutput, reservationParams } from "./reservation-shapes.ts";

export default operation({
  id: "extendReservation",
  method: "post",
  path: "/api/v1/usage/reservations/{reservationId}/extend",
  tag: "Usage",
  access: secretKey(),
  params: reservationParams,
  body: lazy(() =>
    z
      .strictObject({
        expiresInSeconds: expiresInSeconds.meta(words("How long the credits are held from now on.", 120)),
      })
      .meta({ id: "ExtendReservation", wrongNames: { expiresInSeconds: SECONDS_NAMES } }),
  ),
  errors: ["reservation_not_found", "reservation_closed"],
  writesForId: "rejected",
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () => reservationOutput,
    summary: "Extend a reservation",
    description:
      "Moves the expiry of an open reservation to `expiresInSeconds` from now. The expiry never becomes earlier, " +
      "and is at most a day after the reservation was created.",
    returns: "The reservation with its new end.",
    example: () => ({
      body: { expiresInSeconds: 120 },
      output: { ...reservation, expiresAt: "2026-01-16T08:32:30.000Z" },
    }),
  }),
  handler: (ctx, { params, body }) => extendReservation(ctx, params.reservationId, body),
});
