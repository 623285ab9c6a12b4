import * as z from "zod";
import { summedMeters, summedQuantities, sumOutput, unit } from "../../books/amounts/amount-fields.ts";
import { readUsageTotals } from "../../books/usage/totals.ts";
import { isTime } from "../../books/usage/usage-groups.ts";
import { identifier, timestamp, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { secretKeyOrUser } from "../access.ts";
import { operation } from "../operation.ts";

const totalsOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      totals: z
        .array(
          z
            .strictObject({
              event: z.string().meta(words("The event's name.", "chat.completed")),
              unit,
              amount: sumOutput.meta(words("The amount, in the unit.", 1_200)),
            })
            .meta({ id: "UsageTotal" }),
        )
        .meta(words("The totals, one for each group.")),
    })
    .meta({ id: "UsageTotals" }),
);

const groupedTotalsOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      totals: z
        .array(
          z
            .strictObject({
              time: time
                .optional()
                .meta(words("When the hour, the day or the month begins.", "2026-01-16T00:00:00.000Z")),
              event: z.string().optional().meta(words("The event's name.", "chat.completed")),
              model: z.string().nullable().optional().meta(words("Null for events without a model.", "large-1")),
              memberId: z.string().nullable().optional().meta(words("Null for usage without a member.", "user_7")),
              events: z.number().meta(words("How many events.", 1_200)),
              quantities: summedQuantities.meta(words("The used quantities. Unused units are left out.")),
              debited: summedQuantities.meta(words("The debited amounts, by unit.")),
              meters: summedMeters.meta(
                words("The meters that were sent. Empty if there were none.", { input: 1_200 }),
              ),
            })
            .meta({ id: "GroupedUsageTotal" }),
        )
        .meta(words("The totals, one for each group.")),
    })
    .meta({ id: "GroupedUsageTotals" }),
);

const totalsGroup = lazy(() => z.enum(["event", "model", "member", "hour", "day", "month"]));

export default operation({
  id: "getUsageTotals",
  method: "get",
  path: "/api/v1/usage",
  tag: "Usage",
  access: secretKeyOrUser(["memberId"]),
  query: lazy(() =>
    z.object({
      userId,
      memberId: identifier().optional().meta(words("Only this member's usage. Needs a secret key.", "user_7")),
      event: identifier().optional().meta(words("An event name or a glob.", "chat.completed")),
      from: timestamp
        .optional()
        .meta(words("Only events that occurred at this time or later.", "2026-01-16T08:30:00.000Z")),
      to: timestamp.optional().meta(words("Only events that occurred before this time.", "2026-02-16T08:30:00.000Z")),
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
        .meta(
          words(
            "Groups, separated by commas: `event`, `model`, `member` (with a secret key), and one of `hour`, `day` and `month` (UTC). Needs `from`.",
            "event,day",
          ),
        ),
    }),
  ),
  errors: ["requires_secret_key"],
  ...(WITH_REFERENCE && {
    output: () => z.union([totalsOutput, groupedTotalsOutput]),
    summary: "Get usage totals",
    description:
      "Returns the used quantities, by event and unit, of events that occurred in `[from, to)`. These are not " +
      "debits. `groupBy` groups them by event, model, member and hour, day or month, together with the debited amounts and the " +
      "meters; it needs `from`. A span of more than 200,000 events is rejected. A browser may call it with a publishable key " +
      "and the user's token, for that user only, for up to 5,000 events.",
    returns: "The totals. Units that were not used are left out.",
    example: () => ({ output: { totals: [{ event: "chat.completed", unit: "tokens", amount: 1_200 }] } }),
  }),
  handler: (ctx, { query }) => readUsageTotals(ctx, query),
});
