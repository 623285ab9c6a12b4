import { deleteLimit } from "../../books/limits/change.ts";
import { usageLimitOutput } from "../../books/limits/responses.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { exampleLimit, usageLimitParams } from "./shapes.ts";

export default operation({
  id: "deleteUsageLimit",
  method: "delete",
  path: "/api/v1/admin/apps/{appId}/usage-limits/{limitId}",
  tag: "Administration",
  access: administration("write", "row"),
  params: usageLimitParams,
  output: () => usageLimitOutput,
  summary: "Delete a usage limit",
  description: "Deletes the limit and its counters. It no longer applies.",
  returns: "The deleted limit.",
  example: () => ({ output: exampleLimit }),
  handler: (admin, { params }) => deleteLimit(admin, params.appId, params.limitId),
});
