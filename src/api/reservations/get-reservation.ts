import { readReservation } from "../../books/usage/read-reservation.ts";

import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { reservation, reservationOutput, reservationParams } from "./reservation-shapes.ts";

export default operation({
  id: "getReservation",
  method: "get",
  path: "/api/v1/usage/reservations/{reservationId}",
  tag: "Usage",
  access: secretKey({ rejects: "requires_secret_key" }),
  params: reservationParams,
  errors: ["reservation_not_found"],
  ...(WITH_REFERENCE && {
    output: () => reservationOutput,
    summary: "Get a reservation",
    description:
      "Returns the current state of a reservation. An expired reservation whose holds have not returned yet already " +
      "has its later status, and no `settledAt`.",
    returns: "The reservation.",
    example: () => ({ output: reservation }),
  }),
  handler: (ctx, { params }) => readReservation(ctx, params.reservationId),
});
