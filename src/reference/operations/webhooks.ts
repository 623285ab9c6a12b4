import * as z from "zod";
import {
  listDeliveriesOutput,
  listWebhooksOutput,
  newSecretOutput,
  replayOutput,
  sentOutput,
  webhookOutput,
} from "../../webhooks/responses.ts";
import {
  changeWebhookInput,
  createWebhookInput,
  listDeliveriesInput,
  listWebhooksInput,
  replayInput,
} from "../../webhooks/schemas.ts";
import type { Operation } from "../operation.ts";
import { access, appId, createdAt, ofApp, path, tag } from "./administration.ts";

const newWebhook = { mode: "live", url: "https://example.com/webhooks", types: ["credits.*"] };
const webhook = {
  webhookId: "whk_2mQx8vN5bT0rKf7yLwZ3Hd",
  ...newWebhook,
  description: null,
  isEnabled: true,
  createdAt,
};
const secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazyJtbTDpLQ=";
const messageId = "msg_0VEGuQMw9bT0rKf7yLwZ3Hd5cQx2vN";
const delivery = {
  messageId,
  type: "purser.test",
  timestamp: createdAt,
  status: "delivered",
  nextAttemptAt: null,
  message: {
    id: messageId,
    type: "purser.test",
    timestamp: createdAt,
    appId: "app_3kDw9pX1sB6vMn0qTzR7Ge",
    mode: "live",
    data: {},
  },
  attempts: [{ at: createdAt, status: 200, durationMs: 84, error: null }],
};

const ofWebhook = { appId, webhookId: z.string().describe("The id of the endpoint, `whk_…`.") };
const params = z.object(ofWebhook);
const one = path("/apps/{appId}/webhooks/{webhookId}");
const common = { tag, access } as const;

export const webhookOperations: readonly Operation[] = [
  {
    ...common,
    id: "createWebhook",
    method: "post",
    path: path("/apps/{appId}/webhooks"),
    summary: "Create an endpoint",
    description:
      "For one mode, at most 10. It gets messages according to Standard Webhooks 1.0, signed with its secret, which is returned only here.",
    params: ofApp,
    body: { schema: createWebhookInput, example: newWebhook },
    success: { description: "The endpoint and its secret.", schema: newSecretOutput, example: { ...webhook, secret } },
    errors: ["secrets_unavailable"],
  },
  {
    ...common,
    id: "listWebhooks",
    method: "get",
    path: path("/apps/{appId}/webhooks"),
    summary: "List endpoints",
    description: "Of one mode, oldest first.",
    params: ofApp,
    query: listWebhooksInput,
    success: { description: "The endpoints.", schema: listWebhooksOutput, example: { webhooks: [webhook] } },
    errors: [],
  },
  {
    ...common,
    id: "changeWebhook",
    method: "patch",
    path: one,
    summary: "Change an endpoint",
    description: "Fields that are left out stay as they are.",
    params,
    body: { schema: changeWebhookInput, example: { isEnabled: true } },
    success: { description: "The endpoint.", schema: webhookOutput, example: webhook },
    errors: [],
  },
  {
    ...common,
    id: "deleteWebhook",
    method: "delete",
    path: one,
    summary: "Delete an endpoint",
    description: "It gets no more messages.",
    params,
    success: { description: "The deleted endpoint.", schema: webhookOutput, example: webhook },
    errors: [],
  },
  {
    ...common,
    id: "rotateWebhookSecret",
    method: "post",
    path: `${one}/rotate`,
    summary: "Rotate an endpoint's secret",
    description: "The previous secret signs too for 24 hours.",
    params,
    success: { description: "The endpoint and its secret.", schema: newSecretOutput, example: { ...webhook, secret } },
    errors: ["secrets_unavailable"],
  },
  {
    ...common,
    id: "testWebhook",
    method: "post",
    path: `${one}/test`,
    summary: "Send a test message",
    description: "Sends `purser.test`, regardless of the endpoint's types.",
    params,
    success: { description: "The message.", schema: sentOutput, example: { messageId } },
    errors: [],
  },
  {
    ...common,
    id: "listDeliveries",
    method: "get",
    path: `${one}/deliveries`,
    summary: "List deliveries",
    description: "The deliveries to an endpoint in the last 30 days, newest first, with every attempt.",
    params,
    query: listDeliveriesInput,
    success: {
      description: "A page of deliveries.",
      schema: listDeliveriesOutput,
      example: { deliveries: [delivery], nextCursor: null },
    },
    errors: [],
  },
  {
    ...common,
    id: "resendMessage",
    method: "post",
    path: `${one}/deliveries/{messageId}/resend`,
    summary: "Send a message again",
    description: "Makes one more attempt at once.",
    params: z.object({ ...ofWebhook, messageId: z.string().describe("The id of the message, `msg_…`.") }),
    success: { description: "The message.", schema: sentOutput, example: { messageId } },
    errors: [],
  },
  {
    ...common,
    id: "replayMessages",
    method: "post",
    path: `${one}/replay`,
    summary: "Send the messages of a time again",
    description: "At most 10,000, the oldest first. The cron sends them.",
    params,
    body: { schema: replayInput, example: { from: createdAt } },
    success: {
      description: "The number of messages that are sent again.",
      schema: replayOutput,
      example: { messages: 3 },
    },
    errors: [],
  },
];
