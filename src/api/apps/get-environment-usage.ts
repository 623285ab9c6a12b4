import * as z from "zod";
import { summedQuantities } from "../../books/amounts/amount-fields.ts";
import { readEnvironmentUsage } from "../../books/usage/environment-usage.ts";
import { mode, timestamp } from "../../http/fields.ts";
import { time } from "../../http/output-fields.ts";
import { DAY_MS } from "../../lib/time.ts";
import { administration, BY_GROUP } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";

const environmentUsageOutput = z.lazy(() =>
  z
    .strictObject({
      totals: z.array(
        z
          .strictObject({
            time: time.optional().describe("When the day begins."),
            event: z.string().optional(),
            model: z.string().nullable().optional().describe("Null for events without a model."),
            userId: z.string().optional(),
            events: z.number().describe("How many events."),
            quantities: summedQuantities.describe("The used quantities. Unused units are left out."),
          })
          .meta({ id: "EnvironmentUsageTotal" }),
      ),
      upTo: time.describe("The totals include all events received before this time, and possibly some later ones."),
    })
    .meta({ id: "EnvironmentUsage" }),
);

const dayBegin = z.lazy(() =>
  timestamp
    .refine((atMs) => atMs % DAY_MS === 0, "must begin a day in UTC, such as `2026-01-31T00:00:00Z`")
    .meta({ format: "date-time" }),
);

export const environmentUsageInput = z.lazy(() =>
  z.object({
    mode: mode.describe("The mode whose usage it is."),
    from: dayBegin.describe("Usage of this day or later. The start of a day in UTC."),
    to: dayBegin.describe("Usage before this day. The start of a day in UTC."),
    groupBy: z.enum(["day", "event", "model", "user"]).describe("The groups of the totals."),
  }),
);

export default operation({
  id: "getEnvironmentUsage",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/usage",
  tag: "Administration",
  access: administration(BY_GROUP, "argument"),
  params: appParams,
  query: environmentUsageInput,
  output: () => environmentUsageOutput,
  summary: "Get the usage of all users",
  description:
    "Returns the usage of all users of one mode on the days of `[from, to)`, in UTC, by `occurredAt`. It is " +
    "grouped by day, event, model or user. `user` returns the 100 users with the most events and the 100 users " +
    "with the most of each unit in one list, the most events first. The totals are updated within minutes: they " +
    "contain everything received before `upTo`. A span with more than 2,000,000 sums is refused; each user, " +
    "day, event and model has one sum.",
  returns: "The totals, by time, event or model, null first; users by events.",
  example: () => ({
    output: {
      totals: [
        { userId: "user_42", events: 310, quantities: { count: 310, tokens: 482_113 } },
        { userId: "user_7", events: 12, quantities: { count: 12, tokens: 1_200_000 } },
      ],
      upTo: "2026-01-31T12:04:07.512Z",
    },
  }),
  handler: (admin, { params, query }) => readEnvironmentUsage(admin, params.appId, query),
});
