import * as z from "zod";
import { mode } from "../http/fields.ts";
import { time } from "../http/responses.ts";
import { once } from "../lib/once.ts";
import { deliveryStatus } from "./schemas.ts";

const endpointOutputFields = {
  webhookId: z.string(),
  mode,
  url: z.string().describe("For an administration key without the scope `people`: only the origin."),
  types: z.array(z.string()).nullable(),
  description: z.string().nullable(),
  isEnabled: z.boolean(),
  createdAt: time,
};

export const webhookOutput = z.lazy(() => z.strictObject(endpointOutputFields).meta({ id: "Webhook" }));
export type WebhookOutput = z.infer<typeof webhookOutput>;

export const newSecretOutput = z.lazy(() =>
  z
    .strictObject({
      ...endpointOutputFields,
      secret: z.string().describe("The secret that signs messages. Returned only here."),
    })
    .meta({ id: "WebhookWithSecret" }),
);
export type NewSecretOutput = z.infer<typeof newSecretOutput>;

export const sentOutput = z.lazy(() => z.strictObject({ messageId: z.string() }).meta({ id: "SentMessage" }));
export type SentOutput = z.infer<typeof sentOutput>;

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
export type Attempt = z.infer<typeof attemptOutput>;

/** A message as endpoints receive it. */
export const message = z.lazy(
  once(() =>
    z
      .strictObject({
        id: z.string(),
        type: z.string(),
        timestamp: time,
        appId: z.string(),
        mode,
        data: z.looseObject({}),
      })
      .meta({ id: "Message" }),
  ),
);
export type MessageOutput = z.infer<typeof message>;

export const listDeliveriesOutput = z.lazy(() =>
  z
    .strictObject({
      deliveries: z.array(
        z
          .strictObject({
            messageId: z.string(),
            type: z.string(),
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
export type ListDeliveriesOutput = z.infer<typeof listDeliveriesOutput>;
