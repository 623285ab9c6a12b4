import * as z from "zod";
import { cancelRecurring } from "../../books/recurring/cancel-recurring.ts";
import { freeText } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { recurring, recurringOutput, recurringParams } from "./recurring-shapes.ts";

export const cancelRecurringInput = lazy(() =>
  z
    .strictObject({
      at: z
        .enum(["period_end", "now"])
        .default("period_end")
        .meta(words("`now` also revokes granted balances that have not expired.", "period_end")),
      reason: freeText()
        .optional()
        .meta(words("Stored as the `note` of the ledger entries that `now` writes.", "Duplicate purchase")),
    })
    .meta({ id: "CancelRecurringGrant" }),
);

export default operation({
  id: "cancelRecurringGrant",
  method: "post",
  path: "/api/v1/credits/recurring/{recurringId}/cancel",
  tag: "Credits",
  access: secretKey(),
  params: recurringParams,
  body: cancelRecurringInput,
  errors: ["not_found"],
  writesForId: "rejected",
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () => recurringOutput,
    summary: "End a recurring grant",
    description:
      'Ends the recurring grant. With `at: "now"` its balances that have not expired are revoked too, even if it has ' +
      "already ended. A repeat changes nothing.",
    returns: "The recurring grant, ended.",
    example: () => ({ body: { at: "period_end" }, output: { ...recurring, status: "ended", nextAt: null } }),
  }),
  handler: (ctx, { params, body }) => cancelRecurring(ctx, params.recurringId, body),
});
