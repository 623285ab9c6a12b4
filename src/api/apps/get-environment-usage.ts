import * as z from "zod";
import { summedMeters, summedQuantities, sumOutput } from "../../books/amounts/amount-fields.ts";
import { readEnvironmentUsage } from "../../books/usage/environment-usage.ts";
import { mode, timestamp } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { DAY_MS } from "../../lib/time.ts";
import { words } from "../../lib/words.ts";
import { administration, BY_GROUP } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";

const environmentUsageOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      totals: z
        .array(
          z
            .strictObject({
              time: time.optional().meta(words("When the day begins.", "2026-01-16T00:00:00.000Z")),
              event: z.string().optional().meta(words("The event's name.", "chat.completed")),
              model: z.string().nullable().optional().meta(words("Null for events without a model.", "large-1")),
              userId: z.string().optional().meta(words("Your own id of the user.", "user_42")),
              memberId: z.string().optional().meta(words("The member who used it.", "user_7")),
              events: z.number().meta(words("How many events.", 310)),
              quantities: summedQuantities.meta(words("The used quantities. Unused units are left out.")),
              meters: summedMeters.meta(
                words("The meters that were sent. Empty if there were none.", { input: 1_200 }),
              ),
              cost: sumOutput
                .nullable()
                .meta(words("Your own cost by the price list's `costs`, in cents. Null if no event had one.", 96)),
              withoutCost: z.number().meta(words("How many of the events have no cost.", 0)),
            })
            .meta({ id: "EnvironmentUsageTotal" }),
        )
        .meta(words("The totals, one for each group.")),
      upTo: time.meta(
        words(
          "The totals include all events received before this time, and possibly some later ones.",
          "2026-01-31T12:04:07.512Z",
        ),
      ),
    })
    .meta({ id: "EnvironmentUsage" }),
);

const dayBegin = lazy(() =>
  timestamp
    .refine((atMs) => atMs % DAY_MS === 0, "must begin a day in UTC, such as `2026-01-31T00:00:00Z`")
    .meta({ format: "date-time" }),
);

export const environmentUsageInput = lazy(() =>
  z.object({
    mode: mode.meta(words("The mode whose usage it is.", "live")),
    from: dayBegin.meta(words("Usage of this day or later. The start of a day in UTC.", "2026-01-16T00:00:00.000Z")),
    to: dayBegin.meta(words("Usage before this day. The start of a day in UTC.", "2026-02-16T00:00:00.000Z")),
    groupBy: z.enum(["day", "event", "model", "user", "member"]).meta(words("The groups of the totals.", "day")),
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
  ...(WITH_REFERENCE && {
    output: () => environmentUsageOutput,
    summary: "Get the usage of all users",
    description:
      "Returns the usage of all users of one mode on the days of `[from, to)`, in UTC, by `occurredAt`. It is " +
      "grouped by day, event, model, user or member of a user. `user` and `member` return the 100 largest by events and the 100 " +
      "largest by each unit in one list, the most events first. The totals are updated within minutes: they " +
      "contain everything received before `upTo`. A span with more than 2,000,000 sums is rejected; each user, " +
      "member, day, event and model has one sum.",
    returns: "The totals, by time, event or model, null first; users by events.",
    example: () => ({
      output: {
        totals: [
          {
            ...{
              userId: "user_42",
              events: 310,
              quantities: { cents: 205.5 },
              meters: { input: 482_113, output: 60_200 },
            },
            ...{ cost: 96, withoutCost: 0 },
          },
          {
            ...{ userId: "user_7", events: 12, quantities: { count: 12, tokens: 1_200_000 }, meters: {} },
            ...{ cost: null, withoutCost: 12 },
          },
        ],
        upTo: "2026-01-31T12:04:07.512Z",
      },
    }),
  }),
  handler: (admin, { params, query }) => readEnvironmentUsage(admin, params.appId, query),
});
