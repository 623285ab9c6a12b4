import * as z from "zod";
import { createStatement } from "../../books/statements/monthly-statements.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { statement, statementOutput } from "./statement-shapes.ts";

export const createStatementInput = lazy(() =>
  z
    .strictObject({
      mode,
      month: z
        .string()
        .regex(/^\d{4}-(0[1-9]|1[0-2])$/, "must be a month such as `2026-11`")
        .meta(words("A month in UTC that ended at least an hour ago.", "2025-12")),
    })
    .meta({ id: "CreateStatement" }),
);

export default operation({
  id: "createStatement",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/statements",
  tag: "Administration",
  access: administration("write", "argument"),
  params: appParams,
  body: createStatementInput,
  ...(WITH_REFERENCE && {
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
  }),
  handler: (admin, { params, body }) => createStatement(admin, params.appId, body),
});
