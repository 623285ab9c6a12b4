import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { createWebhook } from "../../webhooks/endpoints.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { description, newSecretOutput, newWebhook, secret, types, url, webhook } from "./webhook-shapes.ts";

export const createWebhookInput = lazy(() =>
  z.strictObject({ mode, url, types, description }).meta({ id: "CreateWebhook" }),
);

export default operation({
  id: "createWebhook",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/webhooks",
  tag: "Administration",
  access: administration("access", "argument"),
  params: appParams,
  body: createWebhookInput,
  errors: ["secrets_unavailable"],
  ...(WITH_REFERENCE && {
    output: () => newSecretOutput,
    summary: "Create an endpoint",
    description:
      "Creates an endpoint in one mode, which may have at most 10. The endpoint gets messages according to Standard " +
      "Webhooks 1.0, signed with its secret. The secret is returned only here.",
    returns: "The endpoint and its secret.",
    example: () => ({ body: newWebhook, output: { ...webhook, secret } }),
  }),
  handler: (admin, { params, body }) => createWebhook(admin, params.appId, body),
});
