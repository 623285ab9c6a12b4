import * as z from "zod";
import { globMatches } from "../../books/amounts/match.ts";
import { freeText, identifier, mode, refuseKeys } from "../../http/fields.ts";
import { time } from "../../http/output-fields.ts";
import { nearest } from "../../http/wrong-names.ts";
import { once } from "../../lib/once.ts";
import { urlAdvice } from "../../lib/public-url.ts";
import type { AdminCtx } from "../../runtime.ts";
import { requireEndpoint } from "../../webhooks/endpoint.ts";
import { MESSAGE_TYPES } from "../../webhooks/outbox.ts";
import { appId, EXAMPLE } from "../common.ts";

const { createdAt } = EXAMPLE;

export const newWebhook = { mode: "live", url: "https://example.com/webhooks", types: ["credits.*"] };

export const webhook = {
  webhookId: "whk_2mQx8vN5bT0rKf7yLwZ3Hd",
  ...newWebhook,
  description: null,
  isEnabled: true,
  createdAt,
};

export const secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazyJtbTDpLQ=";

export const messageId = "msg_0VEGuQMw9bT0rKf7yLwZ3Hd5cQx2vN";

export const webhookParams = z.lazy(() =>
  z.object({ appId, webhookId: z.string().describe("The id of the endpoint, `whk_…`.") }),
);

/** Loads the endpoint of the path, by which a key's rights are judged. */
export const loadEndpoint = (admin: AdminCtx, path: { readonly appId: string; readonly webhookId: string }) =>
  requireEndpoint(admin, path.appId, path.webhookId);

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

export const newSecretOutput = z.lazy(() =>
  z
    .strictObject({
      ...endpointOutputFields,
      secret: z.string().describe("The secret that signs messages. Returned only here."),
    })
    .meta({ id: "WebhookWithSecret" }),
);

export const sentOutput = z.lazy(() => z.strictObject({ messageId: z.string() }).meta({ id: "SentMessage" }));

const URL_CHARACTERS_MAX = 2_000;

const TYPES_MAX = 50;

export const url = z.lazy(() =>
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

export const types = z.lazy(() =>
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

export const description = z.lazy(() => freeText(500).nullish());

/** A message as endpoints receive it. */
export const message = z.lazy(
  once(() =>
    z
      .strictObject({
        id: z.string().meta({ description: "The message's id. It is the same in every attempt.", example: messageId }),
        type: z.string().describe("The type of the message."),
        timestamp: time.describe("When it was written, by the environment's time."),
        appId: z.string(),
        mode,
        data: z.looseObject({}).describe("The data, which depend on the type."),
      })
      .meta({ id: "Message" }),
  ),
);
