import * as z from "zod";
import {
  alertOutput,
  expiryNoticesOutput,
  listAlertsOutput,
  listAlertUsersOutput,
} from "../../books/alerts/responses.ts";
import {
  changeAlertInput,
  createAlertInput,
  listAlertsInput,
  listAlertUsersInput,
  readExpiryNoticesInput,
  setExpiryNoticesInput,
} from "../../books/alerts/schemas.ts";
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
import { appId, appParams, EXAMPLE, ofAdministration } from "./common.ts";

const { createdAt } = EXAMPLE;
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
    appId: EXAMPLE.appId,
    mode: "live",
    data: {},
  },
  attempts: [{ at: createdAt, status: 200, durationMs: 84, error: null }],
};

const webhookParams = z.object({ appId, webhookId: z.string().describe("The id of the endpoint, `whk_…`.") });

const alertParams = z.object({ appId, alertId: z.string().describe("The id of the alert, `alr_…`.") });
const newAlert = { mode: "live", name: "Nearly used up", unit: "tokens", below: { percent: 20 } };
const alert = { alertId: "alr_7hNc4kR9wZ2yTfBq8mLx3D", event: null, createdAt, ...newAlert };
const exampleNotices = { mode: "live", days: [30, 7, 1] };

/** Webhook endpoints and their deliveries, alerts, and notices of expiry. */
export const messageOperations: readonly Operation[] = ofAdministration([
  {
    id: "createWebhook",
    method: "post",
    path: "/apps/{appId}/webhooks",
    summary: "Create an endpoint",
    description:
      "Creates an endpoint in one mode, which may have at most 10. The endpoint gets messages according to Standard " +
      "Webhooks 1.0, signed with its secret. The secret is returned only here.",
    params: appParams,
    body: { schema: createWebhookInput, example: newWebhook },
    success: { description: "The endpoint and its secret.", schema: newSecretOutput, example: { ...webhook, secret } },
    errors: ["secrets_unavailable"],
  },
  {
    id: "listWebhooks",
    method: "get",
    path: "/apps/{appId}/webhooks",
    summary: "List endpoints",
    description: "Returns the endpoints of one mode, oldest first.",
    params: appParams,
    query: listWebhooksInput,
    success: { description: "The endpoints.", schema: listWebhooksOutput, example: { webhooks: [webhook] } },
    errors: [],
  },
  {
    id: "changeWebhook",
    method: "patch",
    path: "/apps/{appId}/webhooks/{webhookId}",
    summary: "Change an endpoint",
    description: "Changes the fields that you send.",
    params: webhookParams,
    body: { schema: changeWebhookInput, example: { isEnabled: true } },
    success: { description: "The endpoint.", schema: webhookOutput, example: webhook },
    errors: [],
  },
  {
    id: "deleteWebhook",
    method: "delete",
    path: "/apps/{appId}/webhooks/{webhookId}",
    summary: "Delete an endpoint",
    description: "Deletes the endpoint. It gets no more messages.",
    params: webhookParams,
    success: { description: "The deleted endpoint.", schema: webhookOutput, example: webhook },
    errors: [],
  },
  {
    id: "rotateWebhookSecret",
    method: "post",
    path: "/apps/{appId}/webhooks/{webhookId}/rotate",
    summary: "Rotate an endpoint's secret",
    description:
      "Creates a new secret for the endpoint. For 24 hours, messages are also signed with the previous secret.",
    params: webhookParams,
    success: { description: "The endpoint and its secret.", schema: newSecretOutput, example: { ...webhook, secret } },
    errors: ["secrets_unavailable"],
  },
  {
    id: "testWebhook",
    method: "post",
    path: "/apps/{appId}/webhooks/{webhookId}/test",
    summary: "Send a test message",
    description: "Sends `purser.test`, regardless of the endpoint's types.",
    params: webhookParams,
    success: { description: "The message.", schema: sentOutput, example: { messageId } },
    errors: [],
  },
  {
    id: "listDeliveries",
    method: "get",
    path: "/apps/{appId}/webhooks/{webhookId}/deliveries",
    summary: "List deliveries",
    description: "Returns the deliveries to an endpoint in the last 30 days, newest first, with every attempt.",
    params: webhookParams,
    query: listDeliveriesInput,
    success: {
      description: "A page of deliveries.",
      schema: listDeliveriesOutput,
      example: { deliveries: [delivery], nextCursor: null },
    },
    errors: [],
  },
  {
    id: "resendMessage",
    method: "post",
    path: "/apps/{appId}/webhooks/{webhookId}/deliveries/{messageId}/resend",
    summary: "Send a message again",
    description: "Makes one more attempt to deliver the message, at once.",
    params: webhookParams.extend({ messageId: z.string().describe("The id of the message, `msg_…`.") }),
    success: { description: "The message.", schema: sentOutput, example: { messageId } },
    errors: [],
  },
  {
    id: "replayMessages",
    method: "post",
    path: "/apps/{appId}/webhooks/{webhookId}/replay",
    summary: "Replay the messages of a period",
    description: "Sends the messages of a period again, at most 10,000, the oldest first. The cron sends them.",
    params: webhookParams,
    body: { schema: replayInput, example: { from: createdAt } },
    success: {
      description: "The number of messages that are sent again.",
      schema: replayOutput,
      example: { messages: 3 },
    },
    errors: [],
  },
  {
    id: "createAlert",
    method: "post",
    path: "/apps/{appId}/alerts",
    summary: "Create an alert",
    description:
      "Creates an alert in one mode, which may have at most 20. The alert sends `credits.low` when a debit, commit, " +
      "refund, revoke, adjustment or expiry lowers a user's active balances in the unit, including holds, below the " +
      "threshold. It fires again only after a grant, a restored payment or an adjustment has raised them to the " +
      "threshold.",
    params: appParams,
    body: { schema: createAlertInput, example: newAlert },
    success: { description: "The alert.", schema: alertOutput, example: alert, warns: true },
    errors: [],
  },
  {
    id: "listAlerts",
    method: "get",
    path: "/apps/{appId}/alerts",
    summary: "List alerts",
    description: "Returns the alerts of one mode, oldest first.",
    params: appParams,
    query: listAlertsInput,
    success: { description: "The alerts.", schema: listAlertsOutput, example: { alerts: [alert] } },
    errors: [],
  },
  {
    id: "changeAlert",
    method: "patch",
    path: "/apps/{appId}/alerts/{alertId}",
    summary: "Change an alert",
    description:
      "Changes the fields that you send; the unit cannot change. The alert starts again like a new one, so it may " +
      "fire again for users for whom it has fired before.",
    params: alertParams,
    body: { schema: changeAlertInput, example: { below: { percent: 10 } } },
    success: {
      description: "The alert.",
      schema: alertOutput,
      example: { ...alert, below: { percent: 10 } },
      warns: true,
    },
    errors: [],
  },
  {
    id: "listAlertUsers",
    method: "get",
    path: "/apps/{appId}/alerts/{alertId}/users",
    summary: "List users for whom an alert has fired",
    description:
      "Returns the users for whom the alert has fired and who have stayed below the threshold since. They are " +
      "recorded only while the environment has an enabled endpoint.",
    params: alertParams,
    query: listAlertUsersInput,
    success: {
      description: "A page of users.",
      schema: listAlertUsersOutput,
      example: { users: [{ userId: "user_123" }], nextCursor: null },
    },
    errors: [],
  },
  {
    id: "deleteAlert",
    method: "delete",
    path: "/apps/{appId}/alerts/{alertId}",
    summary: "Delete an alert",
    description: "Deletes the alert. It sends no more messages.",
    params: alertParams,
    success: { description: "The deleted alert.", schema: alertOutput, example: alert },
    errors: [],
  },
  {
    id: "setExpiryNotices",
    method: "put",
    path: "/apps/{appId}/expiry-notices",
    summary: "Set when notices of expiry are sent",
    description:
      "Sets, for one mode, how many days before a balance expires `balance.expiring` is sent. Replaces the whole " +
      "setting. There is no notice for a time before the grant, before the number was set, or before the first " +
      "endpoint was created.",
    params: appParams,
    body: { schema: setExpiryNoticesInput, example: exampleNotices },
    success: {
      description: "The setting.",
      schema: expiryNoticesOutput,
      example: { appId: EXAMPLE.appId, ...exampleNotices },
    },
    errors: [],
  },
  {
    id: "getExpiryNotices",
    method: "get",
    path: "/apps/{appId}/expiry-notices",
    summary: "Get when notices of expiry are sent",
    description: "Returns the setting of one mode.",
    params: appParams,
    query: readExpiryNoticesInput,
    success: {
      description: "The setting.",
      schema: expiryNoticesOutput,
      example: { appId: EXAMPLE.appId, ...exampleNotices },
    },
    errors: [],
  },
]);
