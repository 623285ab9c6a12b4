import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { readLimits } from "../../people/limits/analytics-limits.ts";

import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { limits, limitsOutput } from "./app-shapes.ts";

export default operation({
  id: "getLimits",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/limits",
  tag: "Administration",
  access: administration("read", "argument"),
  params: appParams,
  query: lazy(() => z.object({ mode: mode.meta(words("The mode of the limits.", "live")) })),
  ...(WITH_REFERENCE && {
    output: () => limitsOutput,
    summary: "Get the limits of analytics, and what was used today",
    description: "Returns the limits of one mode, what was used today, and the limits that were reached.",
    returns: "The current limits, and today's usage.",
    example: () => ({ output: limits }),
  }),
  handler: (admin, { params, query }) => readLimits(admin, params.appId, query.mode),
});
