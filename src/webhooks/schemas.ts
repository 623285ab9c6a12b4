import * as z from "zod";
import { globMatches } from "../books/amounts/match.ts";
import { cursor, freeText, identifier, mode, pageLimit, refuseKeys, timestamp } from "../http/fields.ts";
import { nearest } from "../http/wrong-names.ts";
import { urlAdvice } from "../lib/public-url.ts";
import { MESSAGE_TYPES } from "./outbox.ts";

const URL_CHARACTERS_MAX = 2_000;
const TYPES_MAX = 50;

const url = z.lazy(() =>
  z
    .string()
    .max(URL_CHARACTERS_MAX, `must have at most ${URL_CHARACTERS_MAX} characters`)
    .superRefine((text, context) => {
      const message = urlAdvice(text);
      if (message !== null) context.addIssue({ code: "custom", message });
    })
    .superRefine(refuseKeys)
    .describe("https, or http on a loopback host."),
);

const types = z.lazy(() =>
  z
    .array(identifier())
    .min(1, "must not be empty. Omit it for all types")
    .max(TYPES_MAX, `must have at most ${TYPES_MAX} types`)
    .superRefine((globs, context) => {
      for (const [at, glob] of globs.entries()) {
        if (MESSAGE_TYPES.some((type) => globMatches(glob, type))) continue;
        const [type = "credits.granted"] = nearest(glob, MESSAGE_TYPES, 1);
        const message = `matches no type of message. The nearest is \`${type}\``;
        context.addIssue({ code: "custom", path: [at], message });
      }
    })
    .nullish()
    .describe(
      "Types of messages, or globs such as `credits.*`. Default: all types except `usage.recorded`, which you must name.",
    ),
);

const description = z.lazy(() => freeText(500).nullish());

export const createWebhookInput = z.lazy(() =>
  z.strictObject({ mode, url, types, description }).meta({ id: "CreateWebhook" }),
);
export type CreateWebhookInput = z.infer<typeof createWebhookInput>;

export const changeWebhookInput = z.lazy(() =>
  z
    .strictObject({
      url: url.optional(),
      types,
      description,
      isEnabled: z
        .boolean()
        .optional()
        .describe("While an endpoint is disabled, no messages are written for it, and its pending deliveries fail."),
    })
    .meta({ id: "ChangeWebhook" }),
);
export type ChangeWebhookInput = z.infer<typeof changeWebhookInput>;

export const deliveryStatus = z.lazy(() => z.enum(["pending", "delivered", "failed"]).meta({ id: "DeliveryStatus" }));

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
export type ListDeliveriesInput = z.infer<typeof listDeliveriesInput>;

export const replayInput = z.lazy(() =>
  z
    .strictObject({
      from: timestamp,
      to: timestamp.optional().describe("Excluded. Default: now."),
    })
    .meta({ id: "ReplayWebhook" }),
);
export type ReplayInput = z.infer<typeof replayInput>;
