import { changeAlert } from "../../books/alerts/change.ts";
import { alertOutput } from "../../books/alerts/responses.ts";
import { changeAlertInput } from "../../books/alerts/schemas.ts";
import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import { alert, alertParams, loadAlert } from "./shapes.ts";

export default operation({
  id: "changeAlert",
  method: "patch",
  path: "/api/v1/admin/apps/{appId}/alerts/{alertId}",
  tag: "Administration",
  access: administrationOfRow("write", loadAlert),
  params: alertParams,
  body: changeAlertInput,
  output: () => alertOutput,
  warns: true,
  summary: "Change an alert",
  description:
    "Changes the fields that you send; the unit cannot change. The alert starts again like a new one, so it may " +
    "fire again for users for whom it has fired before.",
  returns: "The alert.",
  example: () => ({ body: { below: { percent: 10 } }, output: { ...alert, below: { percent: 10 } } }),
  handler: ({ admin, row }, { body }) => changeAlert(admin, row, body),
});
