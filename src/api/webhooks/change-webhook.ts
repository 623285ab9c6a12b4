import * as z from "zod";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { changeWebhook } from "../../webhooks/endpoints.ts";
import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import { description, loadEndpoint, types, url, webhook, webhookOutput, webhookParams } from "./webhook-shapes.ts";

export const changeWebhookInput = lazy(() =>
  z
    .strictObject({
      url: url.optional().meta(words("https, or http on a loopback host.", "https://example.com/webhooks")),
      types,
      description,
      isEnabled: z
        .boolean()
        .optional()
        .meta(
          words(
            "While an endpoint is disabled, no messages are written for it, and its pending deliveries fail.",
            true,
          ),
        ),
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
  ...(WITH_REFERENCE && {
    output: () => webhookOutput,
    summary: "Change an endpoint",
    description: "Changes the fields that you send.",
    returns: "The endpoint.",
    example: () => ({ body: { isEnabled: true }, output: webhook }),
  }),
  handler: ({ admin, row }, { body }) => changeWebhook(admin, row, body),
});
