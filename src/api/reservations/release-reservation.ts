import { releaseReservation } from "../../books/usage/commit.ts";
import { releaseOutput } from "../../books/usage/responses.ts";
import { reservationParams } from "../../books/usage/schemas.ts";
import { secretKey } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { reservationId } from "./shapes.ts";

const { balanceId, packId } = EXAMPLE;

export default operation({
  id: "releaseReservation",
  method: "post",
  path: "/api/v1/usage/reservations/{reservationId}/release",
  tag: "Usage",
  access: secretKey(),
  params: reservationParams,
  output: () => releaseOutput,
  errors: ["reservation_not_found", "reservation_closed"],
  writesForId: "refused",
  summary: "Release a reservation",
  description:
    "Returns the held credits. Releasing the reservation again, or after it expired, returns the same result. A " +
    "reservation that was committed or charged is closed.",
  returns: "The amounts returned to each balance.",
  example: () => ({
    output: { reservationId, status: "released", returned: [{ balanceId, packId, unit: "tokens", amount: 120 }] },
  }),
  handler: (ctx, { params }) => releaseReservation(ctx, params.reservationId),
});
