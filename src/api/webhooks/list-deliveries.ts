import { listDeliveries } from "../../webhooks/list-deliveries.ts";
import { listDeliveriesOutput } from "../../webhooks/responses.ts";
import { listDeliveriesInput } from "../../webhooks/schemas.ts";
import { administrationOfRow } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { loadEndpoint, messageId, webhookParams } from "./shapes.ts";

const { createdAt } = EXAMPLE;

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

export default operation({
  id: "listDeliveries",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/webhooks/{webhookId}/deliveries",
  tag: "Administration",
  access: administrationOfRow("people", loadEndpoint),
  params: webhookParams,
  query: listDeliveriesInput,
  output: () => listDeliveriesOutput,
  summary: "List deliveries",
  description: "Returns the deliveries to an endpoint in the last 30 days, newest first, with every attempt.",
  returns: "A page of deliveries.",
  example: () => ({ output: { deliveries: [delivery], nextCursor: null } }),
  handler: ({ admin, row }, { query }) => listDeliveries(admin, row, query),
});
