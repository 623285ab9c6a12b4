import * as z from "zod/mini";
import { about, described } from "#described";
import { cursor, freeText, identifier, mode, pageLimit, timestamp } from "../http/fields.ts";
import { urlAdvice } from "./url.ts";

const URL_CHARACTERS_MAX = 2_000;
const TYPES_MAX = 50;

const url = described(
  z.string().check(
    z.maxLength(URL_CHARACTERS_MAX, `must have at most ${URL_CHARACTERS_MAX} characters`),
    z.superRefine((text, context) => {
      const message = urlAdvice(text);
      if (message !== null) context.addIssue({ code: "custom", message });
    }),
  ),
  about("https, or http on a loopback host."),
);

const types = described(
  z.nullish(
    z
      .array(identifier())
      .check(
        z.minLength(1, "must not be empty. Leave it out for all types"),
        z.maxLength(TYPES_MAX, `must have at most ${TYPES_MAX} types`),
      ),
  ),
  about(
    "Types of messages, or globs such as `credits.*`. Without it: all but `usage.recorded`, which must be asked for.",
  ),
);

const description = z.nullish(freeText(500));

export const createWebhookInput = described(
  z.strictObject({ mode, url, types, description }),
  about({ id: "CreateWebhook" }),
);
export type CreateWebhookInput = z.infer<typeof createWebhookInput>;

export const changeWebhookInput = described(
  z.strictObject({
    url: z.optional(url),
    types,
    description,
    isEnabled: described(
      z.optional(z.boolean()),
      about("While it is off nothing is written for it, and what was pending becomes failed."),
    ),
  }),
  about({ id: "ChangeWebhook" }),
);
export type ChangeWebhookInput = z.infer<typeof changeWebhookInput>;

export const listWebhooksInput = z.object({ mode: described(mode, about("The mode whose endpoints they are.")) });

export const deliveryStatus = described(z.enum(["pending", "delivered", "failed"]), about({ id: "DeliveryStatus" }));

export const listDeliveriesInput = z.object({
  status: described(
    z.optional(deliveryStatus),
    about(
      "Only deliveries of this status. A page may then have fewer than `limit`, even none, while `nextCursor` is not null.",
    ),
  ),
  limit: pageLimit("deliveries"),
  cursor,
});
export type ListDeliveriesInput = z.infer<typeof listDeliveriesInput>;

export const replayInput = described(
  z.strictObject({
    from: timestamp,
    to: described(z.optional(timestamp), about("Excluded. Default: now.")),
  }),
  about({ id: "ReplayWebhook" }),
);
export type ReplayInput = z.infer<typeof replayInput>;
