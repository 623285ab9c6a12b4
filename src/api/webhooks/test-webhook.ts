import { sendTest } from "../../webhooks/resend.ts";

import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import { loadEndpoint, messageId, sentOutput, webhookParams } from "./webhook-shapes.ts";

export default operation({
  id: "testWebhook",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/webhooks/{webhookId}/test",
  tag: "Administration",
  access: administrationOfRow("access", loadEndpoint),
  params: webhookParams,
  ...(WITH_REFERENCE && {
    output: () => sentOutput,
    summary: "Send a test message",
    description: "Sends `purser.test`, regardless of the endpoint's types.",
    returns: "The message.",
    example: () => ({ output: { messageId } }),
  }),
  handler: ({ admin, row }) => sendTest(admin, row),
});
