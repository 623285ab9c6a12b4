import * as z from "zod";
import { resumeRecurring } from "../../books/recurring/cancel-recurring.ts";

import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { recurring, recurringOutput, recurringParams } from "./recurring-shapes.ts";

export default operation({
  id: "resumeRecurringGrant",
  method: "post",
  path: "/api/v1/credits/recurring/{recurringId}/resume",
  tag: "Credits",
  access: secretKey(),
  params: recurringParams,
  body: z.lazy(() =>
    z
      .strictObject({
        undoCancel: z.boolean().default(false).describe("Undoes a cancel at `period_end`, until the last period ends."),
      })
      .meta({ id: "ResumeRecurringGrant" }),
  ),
  output: () => recurringOutput,
  errors: ["not_found", "credit_pack_not_found", "invalid_quantity", "test_quota_exceeded"],
  writesForId: "refused",
  summary: "Resume a suspended recurring grant",
  description:
    "Continues the recurring grant with the current period, which is granted at once. While the cause of the " +
    "suspension remains, the call returns that error and changes nothing. If no period is left, the recurring " +
    "grant ends. With `undoCancel` it continues one that was cancelled at a period's end, until that end.",
  returns: "The recurring grant.",
  example: () => ({ body: {}, output: recurring }),
  handler: (ctx, { params, body }) => resumeRecurring(ctx, params.recurringId, body),
});
