import { deleteAlert } from "../../books/alerts/update-alert.ts";

import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import { alertOutput, alertParams, exampleAlert, loadAlert } from "./alert-shapes.ts";

export default operation({
  id: "deleteAlert",
  method: "delete",
  path: "/api/v1/admin/apps/{appId}/alerts/{alertId}",
  tag: "Administration",
  access: administrationOfRow("write", loadAlert),
  params: alertParams,
  ...(WITH_REFERENCE && {
    output: () => alertOutput,
    summary: "Delete an alert",
    description: "Deletes the alert. It sends no more messages.",
    returns: "The deleted alert.",
    example: () => ({ output: exampleAlert }),
  }),
  handler: ({ admin, row }) => deleteAlert(admin, row),
});
