import * as z from "zod";
import { setOverride } from "../../books/limits/user-limits.ts";
import { memberId, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { amountOfWindow, limitParams, userLimit, userLimitOutput } from "./usage-limit-shapes.ts";

export const setOverrideInput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      userId,
      memberId,
      amount: amountOfWindow()
        .nullable()
        .meta(words("The override, in the limit's unit; 0 or more. Null: this user is unlimited.", 200)),
    })
    .meta({ id: "SetOverride" }),
);

export default operation({
  id: "setOwnUsageLimit",
  method: "put",
  path: "/api/v1/usage/limits/{limitId}/amount",
  tag: "Usage",
  access: secretKey(),
  params: limitParams,
  body: setOverrideInput,
  errors: ["not_found"],
  writesForId: "rejected",
  ...(WITH_REFERENCE && {
    output: () => userLimitOutput,
    summary: "Override a limit for a user",
    description:
      "Sets an amount that replaces the amount of the limit for one user. It takes effect at once, also in the " +
      "current window. If the amount is null, the limit does not apply to this user. A limit per member needs the " +
      "`memberId`; other limits reject one.",
    returns: "The user's use of the limit.",
    example: () => ({
      body: { userId: "user_42", amount: 200 },
      output: { ...userLimit, amount: 200, remaining: 188 },
    }),
  }),
  handler: (ctx, { params, body }) => setOverride(ctx, params.limitId, body),
});
