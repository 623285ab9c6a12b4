import { sendTest } from "../../webhooks/resend.ts";
import { sentOutput } from "../../webhooks/responses.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { messageId, webhookParams } from "./shapes.ts";

export default operation({
  id: "testWebhook",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/webhooks/{webhookId}/test",
  tag: "Administration",
  access: administration("access", "row"),
  params: webhookParams,
  output: () => sentOutput,
  summary: "Send a test message",
  description: "Sends `purser.test`, regardless of the endpoint's types.",
  returns: "The message.",
  example: () => ({ output: { messageId } }),
  handler: (admin, { params }) => sendTest(admin, params.appId, params.webhookId),
});
