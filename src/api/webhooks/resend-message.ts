import * as z from "zod";
import { resendMessage } from "../../webhooks/resend.ts";
import { sentOutput } from "../../webhooks/responses.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { messageId, webhookParams } from "./shapes.ts";

export default operation({
  id: "resendMessage",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/webhooks/{webhookId}/deliveries/{messageId}/resend",
  tag: "Administration",
  access: administration("access", "row"),
  params: webhookParams.unwrap().extend({ messageId: z.string().describe("The id of the message, `msg_…`.") }),
  output: () => sentOutput,
  summary: "Send a message again",
  description: "Makes one more attempt to deliver the message, at once.",
  returns: "The message.",
  example: () => ({ output: { messageId } }),
  handler: (admin, { params: { appId, webhookId, messageId } }) => resendMessage(admin, appId, webhookId, messageId),
});
