import * as z from "zod";
import { listApps } from "../../catalog/apps.ts";
import { words } from "../../lib/words.ts";

import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { appOutputSchema, exampleApp } from "./app-shapes.ts";

export default operation({
  id: "listApps",
  method: "get",
  path: "/api/v1/admin/apps",
  tag: "Administration",
  access: administration("read", "none"),
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({
          apps: z.array(appOutputSchema).meta(words("The applications.")),
          unreachable: z
            .array(z.string())
            .optional()
            .meta(words("Databases that did not answer: their applications are missing.", ["DB_1"])),
        })
        .meta({ id: "AppList" }),
    summary: "List applications",
    description:
      "Returns all applications, oldest first. An administration key gets only the applications that it is for.",
    returns: "The applications.",
    example: () => ({ output: { apps: [exampleApp] } }),
  }),
  handler: (admin) => listApps(admin),
});
