import * as z from "zod";
import { listStatements } from "../../books/statements/monthly-statements.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { statement, summary } from "./statement-shapes.ts";

const statementSummary = /* @__PURE__ */ lazy(() => z.strictObject(summary).meta({ id: "StatementSummary" }));

export default operation({
  id: "listStatements",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/statements",
  tag: "Administration",
  access: administration("read", "argument"),
  params: appParams,
  query: lazy(() => z.object({ mode: mode.meta(words("The mode whose statements they are.", "live")) })),
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({ statements: z.array(statementSummary).meta(words("The newest month first, without lines.")) })
        .meta({ id: "StatementList" }),
    summary: "List statements",
    description: "Returns the statements of one mode, the newest month first, without their lines.",
    returns: "The statements.",
    example: () => ({ output: { statements: [statement] } }),
  }),
  handler: (admin, { params, query }) => listStatements(admin, params.appId, query.mode),
});
