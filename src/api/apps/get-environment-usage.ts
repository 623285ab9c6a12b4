import { readEnvironmentUsage } from "../../books/usage/environment-usage.ts";
import { environmentUsageOutput } from "../../books/usage/responses.ts";
import { environmentUsageInput } from "../../books/usage/schemas.ts";
import { administration, BY_GROUP } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";

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
