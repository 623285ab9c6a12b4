import { deleteWebhook } from "../../webhooks/endpoints.ts";
import { webhookOutput } from "../../webhooks/responses.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { webhook, webhookParams } from "./shapes.ts";

export default operation({
  id: "deleteWebhook",
  method: "delete",
  path: "/api/v1/admin/apps/{appId}/webhooks/{webhookId}",
  tag: "Administration",
  access: administration("access", "row"),
  params: webhookParams,
  output: () => webhookOutput,
  summary: "Delete an endpoint",
  description: "Deletes the endpoint. It gets no more messages.",
  returns: "The deleted endpoint.",
  example: () => ({ output: webhook }),
  handler: (admin, { params }) => deleteWebhook(admin, params.appId, params.webhookId),
});
