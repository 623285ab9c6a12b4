import * as z from "zod";
import { listReservations } from "../../books/usage/reservations-page.ts";
import { cursor, pageLimit, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { nextCursor } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { reservation, reservationOutput, reservationStatus } from "./reservation-shapes.ts";

export default operation({
  id: "listReservations",
  method: "get",
  path: "/api/v1/usage/reservations",
  tag: "Usage",
  access: secretKey({ rejects: "requires_secret_key" }),
  query: lazy(() =>
    z.object({
      userId,
      status: reservationStatus.optional().meta(words("Only reservations of this status.", "open")),
      limit: pageLimit("reservations").meta(words("The most reservations in a page.", 50)),
      cursor,
    }),
  ),
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({
          reservations: z.array(reservationOutput).meta(words("Newest first.")),
          nextCursor,
        })
        .meta({ id: "ReservationList" }),
    summary: "List a user's reservations",
    description:
      "Returns the user's reservations, newest first, of one status or of all. An expired reservation whose holds " +
      "have not returned yet already has its later status, and no `settledAt`.",
    returns: "A page of reservations.",
    example: () => ({ output: { reservations: [reservation], nextCursor: null } }),
  }),
  handler: (ctx, { query }) => listReservations(ctx, query),
});
