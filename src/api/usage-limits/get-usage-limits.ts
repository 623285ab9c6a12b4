import * as z from "zod";
import { readUserLimits } from "../../books/limits/read-user-limits.ts";
import { userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { secretKeyOrUser } from "../access.ts";
import { operation } from "../operation.ts";
import { memberOfLimit, userLimit, userLimitOutput } from "./usage-limit-shapes.ts";

export default operation({
  id: "getUsageLimits",
  method: "get",
  path: "/api/v1/usage/limits",
  tag: "Usage",
  access: secretKeyOrUser([], { isForMembers: true }),
  query: lazy(() => z.object({ userId, memberId: memberOfLimit.optional() })),
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({ limits: z.array(userLimitOutput).meta(words("In the order of creation.")) })
        .meta({ id: "UserUsageLimits" }),
    summary: "Get a user's usage limits",
    description:
      "Returns the used amount of each limit in the current window, including open holds, in the order in which the " +
      "limits were created. With `memberId`, that member's limits per member are among them. A " +
      "browser may call it with the user's token, or with a member's for a payer that the token names by `payerClaim`: then it " +
      "returns that member's limits alone.",
    returns: "The limits.",
    example: () => ({ output: { limits: [userLimit] } }),
  }),
  handler: (ctx, { query: { userId, memberId } }, { endUserId, claimedIds }) =>
    readUserLimits(ctx, userId, memberId === undefined ? claimedIds() : [memberId], () => {
      const endUser = endUserId() ?? userId;
      // A member reads its own limits, not the payer's (ME5).
      return endUser === userId ? { memberId: memberId ?? null, isPayer: true } : { memberId: endUser, isPayer: false };
    }),
});
