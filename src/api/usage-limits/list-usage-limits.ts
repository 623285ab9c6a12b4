import * as z from "zod";
import { listLimits } from "../../books/limits/limits.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleLimit, usageLimitOutput } from "./usage-limit-shapes.ts";

export default operation({
  id: "listUsageLimits",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/usage-limits",
  tag: "Administration",
  access: administration("read", "argument"),
  params: appParams,
  query: lazy(() => z.object({ mode: mode.meta(words("The mode whose limits they are.", "live")) })),
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({ limits: z.array(usageLimitOutput).meta(words("In the order of creation.")) })
        .meta({ id: "UsageLimitList" }),
    summary: "List usage limits",
    description: "Returns the limits of one mode, in the order of creation.",
    returns: "The limits.",
    example: () => ({ output: { limits: [exampleLimit] } }),
  }),
  handler: (admin, { params, query }) => listLimits(admin, params.appId, query.mode),
});
