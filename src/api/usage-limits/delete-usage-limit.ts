import { deleteLimit } from "../../books/limits/update-limit.ts";

import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import { exampleLimit, loadLimit, usageLimitOutput, usageLimitParams } from "./usage-limit-shapes.ts";

export default operation({
  id: "deleteUsageLimit",
  method: "delete",
  path: "/api/v1/admin/apps/{appId}/usage-limits/{limitId}",
  tag: "Administration",
  access: administrationOfRow("write", loadLimit),
  params: usageLimitParams,
  ...(WITH_REFERENCE && {
    output: () => usageLimitOutput,
    summary: "Delete a usage limit",
    description: "Deletes the limit and its counters. It no longer applies.",
    returns: "The deleted limit.",
    example: () => ({ output: exampleLimit }),
  }),
  handler: ({ admin, row }) => deleteLimit(admin, row),
});
