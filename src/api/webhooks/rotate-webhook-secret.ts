import { rotateSecret } from "../../webhooks/endpoints.ts";
import { newSecretOutput } from "../../webhooks/responses.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { secret, webhook, webhookParams } from "./shapes.ts";

export default operation({
  id: "rotateWebhookSecret",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/webhooks/{webhookId}/rotate",
  tag: "Administration",
  access: administration("access", "row"),
  params: webhookParams,
  output: () => newSecretOutput,
  errors: ["secrets_unavailable"],
  summary: "Rotate an endpoint's secret",
  description:
    "Creates a new secret for the endpoint. For 24 hours, messages are also signed with the previous secret.",
  returns: "The endpoint and its secret.",
  example: () => ({ output: { ...webhook, secret } }),
  handler: (admin, { params }) => rotateSecret(admin, params.appId, params.webhookId),
});
