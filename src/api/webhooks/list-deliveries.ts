import * as z from "zod";
import { cursor, pageLimit } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { nextCursor, time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { listDeliveries } from "../../webhooks/delivery-page.ts";
import { administrationOfRow } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { loadEndpoint, message, messageId, webhookParams } from "./webhook-shapes.ts";

const attemptOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      at: time.meta(words("The time.", "2026-01-15T12:00:00.000Z")),
      status: z.int().nullable().meta(words("The HTTP status. Null: there was no response.", 200)),
      durationMs: z.int().meta(words("How long the attempt took, in milliseconds.", 84)),
      error: z
        .enum(["timeout", "unreachable", "secrets_unavailable"])
        .nullable()
        .meta(words("Why there was no response.", "timeout")),
    })
    .meta({ id: "DeliveryAttempt" }),
);

const listDeliveriesOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      deliveries: z
        .array(
          z
            .strictObject({
              messageId: z.string().meta(words("The message's id.", "msg_0VEGuQMw9bT0rKf7yLwZ3Hd5cQx2vN")),
              type: z.string().meta(words("The type of the message.", "purser.test")),
              timestamp: time.meta(words("When it happened.", "2026-01-15T12:00:00.000Z")),
              status: deliveryStatus.meta(words("The status.", "delivered")),
              nextAttemptAt: time
                .nullable()
                .meta(words("When the next attempt is made. Null if none follows.", "2026-01-16T08:35:00.000Z")),
              message: message.meta(words("The message, as it is sent.")),
              attempts: z.array(attemptOutput).meta(words("The attempts so far.")),
            })
            .meta({ id: "Delivery" }),
        )
        .meta(words("The deliveries of the page.")),
      nextCursor,
    })
    .meta({ id: "DeliveryPage" }),
);

const deliveryStatus = lazy(() =>
  z.enum(["pending", "delivered", "failed"]).meta({ id: "DeliveryStatus", ...words("The status.", "pending") }),
);

export const listDeliveriesInput = lazy(() =>
  z.object({
    status: deliveryStatus
      .optional()
      .meta(
        words(
          "Only deliveries of this status. A page may then have fewer than `limit` deliveries, or none, although `nextCursor` is not null.",
          "pending",
        ),
      ),
    limit: pageLimit("deliveries").meta(words("The most deliveries in a page.", 50)),
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
  ...(WITH_REFERENCE && {
    output: () => listDeliveriesOutput,
    summary: "List deliveries",
    description: "Returns the deliveries to an endpoint in the last 30 days, newest first, with every attempt.",
    returns: "A page of deliveries.",
    example: () => ({ output: { deliveries: [delivery], nextCursor: null } }),
  }),
  handler: ({ admin, row }, { query }) => listDeliveries(admin, row, query),
});
