import { listAlertUsers } from "../../books/alerts/alerts.ts";
import { listAlertUsersOutput } from "../../books/alerts/responses.ts";
import { listAlertUsersInput } from "../../books/alerts/schemas.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { alertParams } from "./shapes.ts";

export default operation({
  id: "listAlertUsers",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/alerts/{alertId}/users",
  tag: "Administration",
  access: administration("people", "row"),
  params: alertParams,
  query: listAlertUsersInput,
  output: () => listAlertUsersOutput,
  summary: "List users for whom an alert has fired",
  description:
    "Returns the users for whom the alert has fired and who have stayed below the threshold since. They are " +
    "recorded only while the environment has an enabled endpoint.",
  returns: "A page of users.",
  example: () => ({ output: { users: [{ userId: "user_123" }], nextCursor: null } }),
  handler: (admin, { params, query }) => listAlertUsers(admin, params.appId, params.alertId, query),
});
