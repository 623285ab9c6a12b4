import * as z from "zod";
import { createApp } from "../../catalog/apps.ts";
import { displayName } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { appOutputSchema, exampleApp } from "./app-shapes.ts";

export const createAppInput = lazy(() =>
  z
    .strictObject({
      name: displayName().meta(words("The name, for people.", "Writing desk")),
      database: z
        .string()
        .optional()
        .meta(
          words(
            "The database that permanently holds the application, such as `DB_1`. Default: the database for new applications.",
            "DB",
          ),
        ),
    })
    .meta({ id: "CreateApp" }),
);

export default operation({
  id: "createApp",
  method: "post",
  path: "/api/v1/admin/apps",
  tag: "Administration",
  access: administration("settings", "none", true),
  body: createAppInput,
  ...(WITH_REFERENCE && {
    output: () => appOutputSchema,
    summary: "Create an application",
    description: "Creates an application with a live and a test environment. It has no keys yet.",
    returns: "The application.",
    example: () => ({ body: { name: "Writing desk" }, output: exampleApp }),
  }),
  handler: (admin, { body }) => createApp(admin, body),
});
