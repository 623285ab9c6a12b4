import { appOutputSchema, endUserAuthOutput, listAppsOutput } from "../../catalog/apps/responses.ts";
import { createAppInput, setEndUserAuthInput } from "../../catalog/apps/schemas.ts";
import type { Operation } from "../operation.ts";
import { access, createdAt, ofApp, path, tag } from "./administration.ts";

export const exampleApp = { appId: "app_3kDw9pX1sB6vMn0qTzR7Ge", name: "Writing desk", database: "DB", createdAt };

const setting = { type: "jwks", url: "https://auth.example.com/.well-known/jwks.json", audience: "writing-desk" };

export const appOperations: readonly Operation[] = [
  {
    id: "createApp",
    method: "post",
    path: path("/apps"),
    tag,
    access,
    summary: "Create an application",
    description: "Creates its live and test environments, without keys.",
    body: { schema: createAppInput, example: { name: "Writing desk" } },
    success: { description: "The application.", schema: appOutputSchema, example: exampleApp },
    errors: [],
  },
  {
    id: "listApps",
    method: "get",
    path: path("/apps"),
    tag,
    access,
    summary: "List applications",
    description: "All applications, oldest first; with an administration key its own.",
    success: { description: "The applications.", schema: listAppsOutput, example: { apps: [exampleApp] } },
    errors: [],
  },
  {
    id: "setEndUserAuth",
    method: "put",
    path: path("/apps/{appId}/end-user-auth"),
    tag,
    access,
    summary: "Set how user tokens are verified",
    description:
      "For one mode. Takes effect at once, and for reads at a replica within seconds. A secret is not shown again.",
    params: ofApp,
    body: { schema: setEndUserAuthInput, example: { mode: "live", setting } },
    success: {
      description: "The setting, without its secret.",
      schema: endUserAuthOutput,
      example: { appId: exampleApp.appId, mode: "live", setting },
      warns: true,
    },
    errors: ["secrets_unavailable"],
  },
];
