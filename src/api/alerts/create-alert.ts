import { createAlert } from "../../books/alerts/alerts.ts";
import { alertOutput } from "../../books/alerts/responses.ts";
import { createAlertInput } from "../../books/alerts/schemas.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { alert, newAlert } from "./shapes.ts";

export default operation({
  id: "createAlert",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/alerts",
  tag: "Administration",
  access: administration("write", "argument"),
  params: appParams,
  body: createAlertInput,
  output: () => alertOutput,
  warns: true,
  summary: "Create an alert",
  description:
    "Creates an alert in one mode, which may have at most 20. The alert sends `credits.low` when a debit, commit, " +
    "refund, revoke, adjustment or expiry lowers a user's active balances in the unit, including holds, below the " +
    "threshold. It fires again only after a grant, a restored payment or an adjustment has raised them to the " +
    "threshold.",
  returns: "The alert.",
  example: () => ({ body: newAlert, output: alert }),
  handler: (admin, { params, body }) => createAlert(admin, params.appId, body),
});
