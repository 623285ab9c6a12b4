import { cancelRecurring } from "../../books/recurring/change.ts";
import { recurringOutput } from "../../books/recurring/responses.ts";
import { cancelRecurringInput, recurringParams } from "../../books/recurring/schemas.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { recurring } from "./shapes.ts";

export default operation({
  id: "cancelRecurringGrant",
  method: "post",
  path: "/api/v1/credits/recurring/{recurringId}/cancel",
  tag: "Credits",
  access: secretKey(),
  params: recurringParams,
  body: cancelRecurringInput,
  output: () => recurringOutput,
  errors: ["not_found"],
  writesForId: "refused",
  summary: "End a recurring grant",
  description:
    'Ends the recurring grant. With `at: "now"` its balances that have not expired are revoked too, even if it has ' +
    "already ended. A repeat changes nothing.",
  returns: "The recurring grant, ended.",
  example: () => ({ body: { at: "period_end" }, output: { ...recurring, status: "ended", nextAt: null } }),
  handler: (ctx, { params, body }) => cancelRecurring(ctx, params.recurringId, body),
});
