import * as z from "zod";
import { anyNumber, freeText, identifier, prefixedIdentifier, timestamp, userId } from "../../http/fields.ts";

const ROLLOVER_MAX = 12;
const rolloverRange = `must be a whole number from 0 to ${ROLLOVER_MAX}, or null`;

export const everyPeriod = z.lazy(() => z.enum(["day", "week", "month", "year"]).meta({ id: "Every" }));

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
export type CreateRecurringInput = z.infer<typeof createRecurringInput>;

export const recurringParams = z.lazy(() =>
  z.object({
    recurringId: z.string().describe("The id of the recurring grant, `rec_…`."),
  }),
);

export const cancelRecurringInput = z.lazy(() =>
  z
    .strictObject({
      at: z
        .enum(["period_end", "now"])
        .default("period_end")
        .describe("`now` also revokes granted balances that have not expired."),
      reason: freeText().optional().describe("Stored as the `note` of the ledger entries that `now` writes."),
    })
    .meta({ id: "CancelRecurringGrant" }),
);
export type CancelRecurringInput = z.infer<typeof cancelRecurringInput>;
