import * as z from "zod";
import { heldAmount } from "../../books/amounts/amount-fields.ts";
import { releaseReservation } from "../../books/usage/release.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { reservationId, reservationParams } from "./reservation-shapes.ts";

const releaseOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      reservationId: z.string().meta(words("The reservation's id.", "res_7hWk3yB5nC0eUi9fMvS4Lx")),
      status: z.enum(["released", "expired"]).meta(words("How the reservation ended.", "released")),
      returned: z.array(heldAmount).meta(words("The amounts returned to each balance.")),
    })
    .meta({ id: "ReservationRelease" }),
);

const { balanceId, packId } = EXAMPLE;

export default operation({
  id: "releaseReservation",
  method: "post",
  path: "/api/v1/usage/reservations/{reservationId}/release",
  tag: "Usage",
  access: secretKey(),
  params: reservationParams,
  errors: ["reservation_not_found", "reservation_closed"],
  writesForId: "rejected",
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () => releaseOutput,
    summary: "Release a reservation",
    description:
      "Returns the held credits. Releasing the reservation again, or after it expired, returns the same result. A " +
      "reservation that was committed or charged is closed.",
    returns: "The amounts returned to each balance.",
    example: () => ({
      output: { reservationId, status: "released", returned: [{ balanceId, packId, unit: "tokens", amount: 120 }] },
    }),
  }),
  handler: (ctx, { params }) => releaseReservation(ctx, params.reservationId),
});
