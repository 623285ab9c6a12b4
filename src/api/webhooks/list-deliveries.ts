import * as z from "zod";
import { cursor, pageLimit } from "../../http/fields.ts";
import { time } from "../../http/output-fields.ts";
import { listDeliveries } from "../../webhooks/delivery-page.ts";
import { administrationOfRow } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { loadEndpoint, message, messageId, webhookParams } from "./webhook-shapes.ts";

const attemptOutput = z.lazy(() =>
  z
    .strictObject({
      at: time,
      status: z.int().nullable().describe("The HTTP status. Null: there was no response."),
      durationMs: z.int(),
      error: z
        .enum(["timeout", "unreachable", "secrets_unavailable"])
        .nullable()
        .describe("Why there was no response."),
    })
    .meta({ id: "DeliveryAttempt" }),
);

const listDeliveriesOutput = z.lazy(() =>
  z
    .strictObject({
      deliveries: z.array(
        z
          .strictObject({
            messageId: z.string(),
            type: z.string().describe("The type of the message."),
            timestamp: time,
            status: deliveryStatus,
            nextAttemptAt: time.nullable(),
            message,
            attempts: z.array(attemptOutput),
          })
          .meta({ id: "Delivery" }),
      ),
      nextCursor: z.string().nullable().describe("The cursor of the next page. Null on the last page."),
    })
    .meta({ id: "DeliveryPage" }),
);

const deliveryStatus = z.lazy(() => z.enum(["pending", "delivered", "failed"]).meta({ id: "DeliveryStatus" }));

export const listDeliveriesInput = z.lazy(() =>
  z.object({
    status: deliveryStatus
      .optional()
      .describe(
        "Only deliveries of this status. A page may then have fewer than `limit` deliveries, or none, although `nextCursor` is not null.",
      ),
    limit: pageLimit("deliveries"),
    cursor,
  }),
);

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
