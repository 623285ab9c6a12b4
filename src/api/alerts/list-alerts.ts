import * as z from "zod";
import { listAlerts } from "../../books/alerts/alerts.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { alertOutput, exampleAlert } from "./alert-shapes.ts";

export default operation({
  id: "listAlerts",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/alerts",
  tag: "Administration",
  access: administration("read", "argument"),
  params: appParams,
  query: lazy(() => z.object({ mode: mode.meta(words("The mode whose alerts they are.", "live")) })),
  ...(WITH_REFERENCE && {
    output: () => z.strictObject({ alerts: z.array(alertOutput).meta(words("The alerts.")) }).meta({ id: "AlertList" }),
    summary: "List alerts",
    description: "Returns the alerts of one mode, oldest first.",
    returns: "The alerts.",
    example: () => ({ output: { alerts: [exampleAlert] } }),
  }),
  handler: (admin, { params, query }) => listAlerts(admin, params.appId, query.mode),
});
