import * as z from "zod";
import { listApps } from "../../catalog/apps.ts";

import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { appOutputSchema, exampleApp } from "./app-shapes.ts";

export default operation({
  id: "listApps",
  method: "get",
  path: "/api/v1/admin/apps",
  tag: "Administration",
  access: administration("read", "none"),
  output: () =>
    z
      .strictObject({
        apps: z.array(appOutputSchema),
        unreachable: z
          .array(z.string())
          .optional()
          .describe("Databases that did not answer: their applications are missing."),
      })
      .meta({ id: "AppList" }),
  summary: "List applications",
  description:
    "Returns all applications, oldest first. An administration key gets only the applications that it is for.",
  returns: "The applications.",
  example: () => ({ output: { apps: [exampleApp] } }),
  handler: (admin) => listApps(admin),
});
