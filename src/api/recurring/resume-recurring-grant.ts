import * as z from "zod";
import { resumeRecurring } from "../../books/recurring/cancel-recurring.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";

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
  body: lazy(() =>
    z
      .strictObject({
        undoCancel: z
          .boolean()
          .default(false)
          .meta(words("Undoes a cancel at `period_end`, until the last period ends.", true)),
      })
      .meta({ id: "ResumeRecurringGrant" }),
  ),
  errors: ["not_found", "credit_pack_not_found", "invalid_quantity", "test_quota_exceeded"],
  writesForId: "rejected",
  ...(WITH_REFERENCE && {
    output: () => recurringOutput,
    summary: "Resume a suspended recurring grant",
    description:
      "Continues the recurring grant with the current period, which is granted at once. While the cause of the " +
      "suspension remains, the call returns that error and changes nothing. If no period is left, the recurring " +
      "grant ends. With `undoCancel` it continues one that was cancelled at a period's end, until that end.",
    returns: "The recurring grant.",
    example: () => ({ body: {}, output: recurring }),
  }),
  handler: (ctx, { params, body }) => resumeRecurring(ctx, params.recurringId, body),
});
