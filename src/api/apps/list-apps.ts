import { listApps } from "../../catalog/apps.ts";
import { listAppsOutput } from "../../catalog/responses.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { exampleApp } from "./shapes.ts";

export default operation({
  id: "listApps",
  method: "get",
  path: "/api/v1/admin/apps",
  tag: "Administration",
  access: administration("read", "none"),
  output: () => listAppsOutput,
  summary: "List applications",
  description:
    "Returns all applications, oldest first. An administration key gets only the applications that it is for.",
  returns: "The applications.",
  example: () => ({ output: { apps: [exampleApp] } }),
  handler: (admin) => listApps(admin),
});
