import { listReservations } from "../../books/usage/reservations.ts";
import { reservationsOutput } from "../../books/usage/responses.ts";
import { reservationsInput } from "../../books/usage/schemas.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { reservation } from "./shapes.ts";

export default operation({
  id: "listReservations",
  method: "get",
  path: "/api/v1/usage/reservations",
  tag: "Usage",
  access: secretKey({ rejects: "requires_secret_key" }),
  query: reservationsInput,
  output: () => reservationsOutput,
  summary: "List a user's reservations",
  description:
    "Returns the user's reservations, newest first, of one status or of all. An expired reservation whose holds " +
    "have not returned yet already has its later status, and no `settledAt`.",
  returns: "A page of reservations.",
  example: () => ({ output: { reservations: [reservation], nextCursor: null } }),
  handler: (ctx, { query }) => listReservations(ctx, query),
});
