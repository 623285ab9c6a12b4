import * as z from "zod";
import { words } from "../../lib/words.ts";
import { resendMessage } from "../../webhooks/resend.ts";

import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import { loadEndpoint, messageId, sentOutput, webhookParams } from "./webhook-shapes.ts";

export default operation({
  id: "resendMessage",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/webhooks/{webhookId}/deliveries/{messageId}/resend",
  tag: "Administration",
  access: administrationOfRow("access", loadEndpoint),
  params: webhookParams.unwrap().extend({
    messageId: z.string().meta(words("The id of the message, `msg_…`.", "msg_0VEGuQMw9bT0rKf7yLwZ3Hd5cQx2vN")),
  }),
  ...(WITH_REFERENCE && {
    output: () => sentOutput,
    summary: "Send a message again",
    description: "Makes one more attempt to deliver the message, at once.",
    returns: "The message.",
    example: () => ({ output: { messageId } }),
  }),
  handler: ({ admin, row }, { params }) => resendMessage(admin, row, params.messageId),
});
