import { changeWebhook } from "../../webhooks/endpoints.ts";
import { webhookOutput } from "../../webhooks/responses.ts";
import { changeWebhookInput } from "../../webhooks/schemas.ts";
import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import { loadEndpoint, webhook, webhookParams } from "./shapes.ts";

export default operation({
  id: "changeWebhook",
  method: "patch",
  path: "/api/v1/admin/apps/{appId}/webhooks/{webhookId}",
  tag: "Administration",
  access: administrationOfRow("access", loadEndpoint),
  params: webhookParams,
  body: changeWebhookInput,
  output: () => webhookOutput,
  summary: "Change an endpoint",
  description: "Changes the fields that you send.",
  returns: "The endpoint.",
  example: () => ({ body: { isEnabled: true }, output: webhook }),
  handler: ({ admin, row }, { body }) => changeWebhook(admin, row, body),
});
