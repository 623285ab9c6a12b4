import { createLimit } from "../../books/limits/limits.ts";
import { usageLimitOutput } from "../../books/limits/responses.ts";
import { createLimitInput } from "../../books/limits/schemas.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleLimit, newLimit } from "./shapes.ts";

export default operation({
  id: "createUsageLimit",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/usage-limits",
  tag: "Administration",
  access: administration("write", "argument"),
  params: appParams,
  body: createLimitInput,
  output: () => usageLimitOutput,
  summary: "Create a usage limit",
  description:
    "Creates a limit in one mode, which may have at most 20. The limit sets how much each user may use in a " +
    "window, independent of credits. Windows follow the calendar in UTC, and weeks begin on Monday. The limit " +
    "counts from its creation.",
  returns: "The limit.",
  example: () => ({ body: { mode: "live", ...newLimit }, output: exampleLimit }),
  handler: (admin, { params, body }) => createLimit(admin, params.appId, body),
});
