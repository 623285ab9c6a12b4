import { deleteAlert } from "../../books/alerts/change.ts";
import { alertOutput } from "../../books/alerts/responses.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { alert, alertParams } from "./shapes.ts";

export default operation({
  id: "deleteAlert",
  method: "delete",
  path: "/api/v1/admin/apps/{appId}/alerts/{alertId}",
  tag: "Administration",
  access: administration("write", "row"),
  params: alertParams,
  output: () => alertOutput,
  summary: "Delete an alert",
  description: "Deletes the alert. It sends no more messages.",
  returns: "The deleted alert.",
  example: () => ({ output: alert }),
  handler: (admin, { params }) => deleteAlert(admin, params.appId, params.alertId),
});
