import * as z from "zod";
import { timestamp } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { replayMessages } from "../../webhooks/resend.ts";
import { administrationOfRow } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { loadEndpoint, webhookParams } from "./webhook-shapes.ts";

export const replayInput = lazy(() =>
  z
    .strictObject({
      from: timestamp.meta(words("The beginning.", "2026-01-15T12:00:00.000Z")),
      to: timestamp.optional().meta(words("Excluded. Default: now.", "2026-02-16T08:30:00.000Z")),
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
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({ messages: z.int().meta(words("The number of messages that are sent again.", 3)) })
        .meta({ id: "ReplayedMessages" }),
    summary: "Replay the messages of a period",
    description: "Sends the messages of a period again, at most 10,000, the oldest first. The cron sends them.",
    returns: "The number of messages that are sent again.",
    example: () => ({ body: { from: createdAt }, output: { messages: 3 } }),
  }),
  handler: ({ admin, row }, { body }) => replayMessages(admin, row, body),
});
