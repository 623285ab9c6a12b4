import { statementOutput } from "../../books/statements/responses.ts";
import { createStatementInput } from "../../books/statements/schemas.ts";
import { createStatement } from "../../books/statements/statements.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { statement } from "./shapes.ts";

export default operation({
  id: "createStatement",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/statements",
  tag: "Administration",
  access: administration("write", "argument"),
  params: appParams,
  body: createStatementInput,
  output: () => statementOutput,
  summary: "Request the statement of a month",
  description:
    "Requests the statement of a month by unit and pack, for accounting. The cron creates it. It balances " +
    "exactly: `opening` + `granted` − `spent` − `refunded` − `taken` + `restored` − `revoked` + `adjusted` − " +
    "`erased` − `expired` = `closing`. A repeat returns the first statement.",
  returns: "The statement, without lines while it is being made.",
  example: () => ({
    body: { mode: "live", month: "2025-12" },
    output: { ...statement, status: "running", madeAt: null, lines: null },
  }),
  handler: (admin, { params, body }) => createStatement(admin, params.appId, body),
});
