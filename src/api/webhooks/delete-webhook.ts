import { deleteWebhook } from "../../webhooks/endpoints.ts";

import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import { loadEndpoint, webhook, webhookOutput, webhookParams } from "./webhook-shapes.ts";

export default operation({
  id: "deleteWebhook",
  method: "delete",
  path: "/api/v1/admin/apps/{appId}/webhooks/{webhookId}",
  tag: "Administration",
  access: administrationOfRow("access", loadEndpoint),
  params: webhookParams,
  ...(WITH_REFERENCE && {
    output: () => webhookOutput,
    summary: "Delete an endpoint",
    description: "Deletes the endpoint. It gets no more messages.",
    returns: "The deleted endpoint.",
    example: () => ({ output: webhook }),
  }),
  handler: ({ admin, row }) => deleteWebhook(admin, row),
});
