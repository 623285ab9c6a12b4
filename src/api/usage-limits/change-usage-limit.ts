import { changeLimit } from "../../books/limits/change.ts";
import { usageLimitOutput } from "../../books/limits/responses.ts";
import { changeLimitInput } from "../../books/limits/schemas.ts";
import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import { exampleLimit, loadLimit, usageLimitParams } from "./shapes.ts";

export default operation({
  id: "changeUsageLimit",
  method: "patch",
  path: "/api/v1/admin/apps/{appId}/usage-limits/{limitId}",
  tag: "Administration",
  access: administrationOfRow("write", loadLimit),
  params: usageLimitParams,
  body: changeLimitInput,
  output: () => usageLimitOutput,
  summary: "Change a usage limit",
  description: "Changes the fields that you send. After a change of the amount, the used amount stays.",
  returns: "The limit.",
  example: () => ({ body: { amount: 60 }, output: { ...exampleLimit, amount: 60 } }),
  handler: ({ admin, row }, { body }) => changeLimit(admin, row, body),
});
