import * as z from "zod";
import { createRecurring } from "../../books/recurring/create.ts";
import { anyNumber, identifier, prefixedIdentifier, timestamp, userId } from "../../http/fields.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { everyPeriod, recurring, recurringOutput } from "./recurring-shapes.ts";

const ROLLOVER_MAX = 12;

const rolloverRange = `must be a whole number from 0 to ${ROLLOVER_MAX}, or null`;

export const createRecurringInput = z.lazy(() =>
  z
    .strictObject({
      recurringId: prefixedIdentifier("rec_").optional().describe("Your own id makes the call idempotent."),
      userId,
      packId: identifier().describe("The pack's id (`cpk_…`), or its name in any case."),
      quantity: anyNumber
        .nullish()
        .describe("The amount in the pack's unit, for legacy packs. Ignored for packs with items."),
      every: everyPeriod.describe("The length of a period, by the calendar in UTC."),
      startsAt: timestamp
        .optional()
        .describe("When the first period begins, at most a year from now or ago. Default: now."),
      endsAt: timestamp.optional().describe("No period begins at or after this time. Default: no end."),
      rolloverPeriods: z
        .int(rolloverRange)
        .min(0, rolloverRange)
        .max(ROLLOVER_MAX, rolloverRange)
        .nullable()
        .default(0)
        .describe("For how many further periods its credits stay valid. Null: they expire as the pack says."),
    })
    .meta({ id: "CreateRecurringGrant" }),
);

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
  idempotent: { field: "recurringId", prefix: "rec_" },
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
