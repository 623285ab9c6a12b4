import * as z from "zod";
import { summedQuantities, sumOutput, unit } from "../../books/amounts/amount-fields.ts";
import { isTime, readUsageTotals } from "../../books/usage/totals.ts";
import { identifier, timestamp, userId } from "../../http/fields.ts";
import { time } from "../../http/output-fields.ts";
import { secretKeyOrUser } from "../access.ts";
import { operation } from "../operation.ts";

const totalsOutput = z.lazy(() =>
  z
    .strictObject({
      totals: z.array(z.strictObject({ event: z.string(), unit, amount: sumOutput }).meta({ id: "UsageTotal" })),
    })
    .meta({ id: "UsageTotals" }),
);

const groupedTotalsOutput = z.lazy(() =>
  z
    .strictObject({
      totals: z.array(
        z
          .strictObject({
            time: time.optional().describe("When the hour, the day or the month begins."),
            event: z.string().optional(),
            model: z.string().nullable().optional().describe("Null for events without a model."),
            events: z.number().describe("How many events."),
            quantities: summedQuantities.describe("The used quantities. Unused units are left out."),
            debited: summedQuantities.describe("The debited amounts, by unit."),
          })
          .meta({ id: "GroupedUsageTotal" }),
      ),
    })
    .meta({ id: "GroupedUsageTotals" }),
);

const totalsGroup = z.lazy(() => z.enum(["event", "model", "hour", "day", "month"]));

export default operation({
  id: "getUsageTotals",
  method: "get",
  path: "/api/v1/usage",
  tag: "Usage",
  access: secretKeyOrUser(),
  query: z.lazy(() =>
    z.object({
      userId,
      event: identifier().optional().describe("An event name or a glob."),
      from: timestamp.optional().describe("Only events that occurred at this time or later."),
      to: timestamp.optional().describe("Only events that occurred before this time."),
      groupBy: z
        .string()
        .transform((text) => text.split(","))
        .pipe(
          z
            .array(totalsGroup)
            .refine((groups) => new Set(groups).size === groups.length, "must name no group twice")
            .refine(
              (groups) => groups.filter(isTime).length <= 1,
              "must name at most one of `hour`, `day` and `month`",
            ),
        )
        .optional()
        .describe(
          "Groups, separated by commas: `event`, `model`, and one of `hour`, `day` and `month` (UTC). Needs `from`.",
        ),
    }),
  ),
  output: () => z.union([totalsOutput, groupedTotalsOutput]),
  summary: "Get usage totals",
  description:
    "Returns the used quantities, by event and unit, of events that occurred in `[from, to)`. These are not " +
    "debits. `groupBy` groups them by event, model and hour, day or month, together with the debited amounts; it " +
    "needs `from`. A span of more than 200,000 events is refused. A browser may call it with a publishable key " +
    "and the user's token, for that user only, for up to 5,000 events.",
  returns: "The totals. Units that were not used are left out.",
  example: () => ({ output: { totals: [{ event: "chat.completed", unit: "tokens", amount: 1_200 }] } }),
  handler: (ctx, { query }) => readUsageTotals(ctx, query),
});
