import { replayMessages } from "../../webhooks/resend.ts";
import { replayOutput } from "../../webhooks/responses.ts";
import { replayInput } from "../../webhooks/schemas.ts";
import { administration } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { webhookParams } from "./shapes.ts";

const { createdAt } = EXAMPLE;

export default operation({
  id: "replayMessages",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/webhooks/{webhookId}/replay",
  tag: "Administration",
  access: administration("access", "row"),
  params: webhookParams,
  body: replayInput,
  output: () => replayOutput,
  summary: "Replay the messages of a period",
  description: "Sends the messages of a period again, at most 10,000, the oldest first. The cron sends them.",
  returns: "The number of messages that are sent again.",
  example: () => ({ body: { from: createdAt }, output: { messages: 3 } }),
  handler: (admin, { params, body }) => replayMessages(admin, params.appId, params.webhookId, body),
});
