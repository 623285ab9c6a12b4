import { createApp } from "../../catalog/apps.ts";
import { appOutputSchema } from "../../catalog/responses.ts";
import { createAppInput } from "../../catalog/schemas.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { exampleApp } from "./shapes.ts";

export default operation({
  id: "createApp",
  method: "post",
  path: "/api/v1/admin/apps",
  tag: "Administration",
  access: administration("settings", "none", true),
  body: createAppInput,
  output: () => appOutputSchema,
  summary: "Create an application",
  description: "Creates an application with a live and a test environment. It has no keys yet.",
  returns: "The application.",
  example: () => ({ body: { name: "Writing desk" }, output: exampleApp }),
  handler: (admin, { body }) => createApp(admin, body),
});
