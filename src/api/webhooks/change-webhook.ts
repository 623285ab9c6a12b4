import * as z from "zod";
import { changeWebhook } from "../../webhooks/endpoints.ts";
import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import { description, loadEndpoint, types, url, webhook, webhookOutput, webhookParams } from "./webhook-shapes.ts";

export const changeWebhookInput = z.lazy(() =>
  z
    .strictObject({
      url: url.optional(),
      types,
      description,
      isEnabled: z
        .boolean()
        .optional()
        .describe("While an endpoint is disabled, no messages are written for it, and its pending deliveries fail."),
    })
    .meta({ id: "ChangeWebhook" }),
);

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
