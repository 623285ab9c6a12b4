import * as z from "zod";
import { timestamp } from "../../http/fields.ts";
import { replayMessages } from "../../webhooks/resend.ts";
import { administrationOfRow } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { loadEndpoint, webhookParams } from "./webhook-shapes.ts";

export const replayInput = z.lazy(() =>
  z
    .strictObject({
      from: timestamp,
      to: timestamp.optional().describe("Excluded. Default: now."),
    })
    .meta({ id: "ReplayWebhook" }),
);

const { createdAt } = EXAMPLE;

export default operation({
  id: "replayMessages",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/webhooks/{webhookId}/replay",
  tag: "Administration",
  access: administrationOfRow("access", loadEndpoint),
  params: webhookParams,
  body: replayInput,
  output: () =>
    z
      .strictObject({ messages: z.int().describe("The number of messages that are sent again.") })
      .meta({ id: "ReplayedMessages" }),
  summary: "Replay the messages of a period",
  description: "Sends the messages of a period again, at most 10,000, the oldest first. The cron sends them.",
  returns: "The number of messages that are sent again.",
  example: () => ({ body: { from: createdAt }, output: { messages: 3 } }),
  handler: ({ admin, row }, { body }) => replayMessages(admin, row, body),
});
