import { createRecurring } from "../../books/recurring/create.ts";
import { recurringOutput } from "../../books/recurring/responses.ts";
import { createRecurringInput } from "../../books/recurring/schemas.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { recurring } from "./shapes.ts";

export default operation({
  id: "createRecurringGrant",
  method: "post",
  path: "/api/v1/credits/recurring",
  tag: "Credits",
  access: secretKey(),
  body: createRecurringInput,
  output: () => recurringOutput,
  errors: ["credit_pack_not_found", "invalid_quantity", "idempotency_conflict", "test_quota_exceeded"],
  replayable: true,
  warns: true,
  writesForId: "refused",
  summary: "Grant a pack every period",
  description:
    "Grants the pack to the user once each period, with the pack's current version. Due periods are granted at " +
    "once. Periods are computed from `startsAt` by the calendar, in UTC; if a month lacks that day, the period " +
    "begins on its last day. The credits of a period have the `externalRef` `recurring:<recurringId>:<n>`, and " +
    "expire at its end, or `rolloverPeriods` periods later. With your own `recurringId` the call is idempotent: a " +
    "repeat returns the recurring grant as it stands now. A " +
    "user may have at most 100 recurring grants that have not ended.",
  returns: "The recurring grant.",
  example: () => ({
    body: { recurringId: "rec_free-user_42", userId: "user_42", packId: "Free", every: "month" },
    output: recurring,
  }),
  handler: (ctx, { body }) => createRecurring(ctx, body),
});
