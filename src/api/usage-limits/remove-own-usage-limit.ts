import * as z from "zod";
import { removeOverride } from "../../books/limits/user-limits.ts";
import { userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { limitParams, memberOfLimit, userLimit, userLimitOutput } from "./usage-limit-shapes.ts";

export default operation({
  id: "removeOwnUsageLimit",
  method: "delete",
  path: "/api/v1/usage/limits/{limitId}/amount",
  tag: "Usage",
  access: secretKey(),
  params: limitParams,
  query: lazy(() => z.object({ userId, memberId: memberOfLimit.optional() })),
  errors: ["not_found"],
  writesForId: "rejected",
  ...(WITH_REFERENCE && {
    output: () => userLimitOutput,
    summary: "Remove a user's override of a limit",
    description: "Restores the limit's amount for the user, or for a member. Returns 200 also if there is no override.",
    returns: "The user's use of the limit.",
    example: () => ({ output: userLimit }),
  }),
  handler: (ctx, { params, query }) => removeOverride(ctx, params.limitId, query),
});
