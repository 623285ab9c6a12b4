import { listLimits } from "../../books/limits/limits.ts";
import { listLimitsOutput } from "../../books/limits/responses.ts";
import { listLimitsInput } from "../../books/limits/schemas.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleLimit } from "./shapes.ts";

export default operation({
  id: "listUsageLimits",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/usage-limits",
  tag: "Administration",
  access: administration("read", "argument"),
  params: appParams,
  query: listLimitsInput,
  output: () => listLimitsOutput,
  summary: "List usage limits",
  description: "Returns the limits of one mode, in the order of creation.",
  returns: "The limits.",
  example: () => ({ output: { limits: [exampleLimit] } }),
  handler: (admin, { params, query }) => listLimits(admin, params.appId, query.mode),
});
