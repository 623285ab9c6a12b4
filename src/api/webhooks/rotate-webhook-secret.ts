import { rotateSecret } from "../../webhooks/endpoints.ts";

import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import { loadEndpoint, newSecretOutput, secret, webhook, webhookParams } from "./webhook-shapes.ts";

export default operation({
  id: "rotateWebhookSecret",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/webhooks/{webhookId}/rotate",
  tag: "Administration",
  access: administrationOfRow("access", loadEndpoint),
  params: webhookParams,
  errors: ["secrets_unavailable"],
  ...(WITH_REFERENCE && {
    output: () => newSecretOutput,
    summary: "Rotate an endpoint's secret",
    description:
      "Creates a new secret for the endpoint. For 24 hours, messages are also signed with the previous secret.",
    returns: "The endpoint and its secret.",
    example: () => ({ output: { ...webhook, secret } }),
  }),
  handler: ({ admin, row }) => rotateSecret(admin, row),
});
