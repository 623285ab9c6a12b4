import * as z from "zod";
import { globMatches } from "../../books/amounts/match.ts";
import { freeText, identifier, mode, rejectKeys } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { nearest } from "../../http/wrong-names.ts";
import { urlAdvice } from "../../lib/public-url.ts";
import { words } from "../../lib/words.ts";
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

export const webhookParams = lazy(() =>
  z.object({
    appId,
    webhookId: z.string().meta(words("The id of the endpoint, `whk_…`.", "whk_2mQx8vN5bT0rKf7yLwZ3Hd")),
  }),
);

/** Loads the endpoint of the path, by which a key's rights are judged. */
export const loadEndpoint = (admin: AdminCtx, path: { readonly appId: string; readonly webhookId: string }) =>
  requireEndpoint(admin, path.appId, path.webhookId);

const endpointOutputFields = () => ({
  webhookId: z.string().meta(words("The endpoint's id.", "whk_2mQx8vN5bT0rKf7yLwZ3Hd")),
  mode,
  url: z
    .string()
    .meta(
      words("For an administration key without the scope `people`: only the origin.", "https://example.com/webhooks"),
    ),
  types: z
    .array(z.string())
    .nullable()
    .meta(words("Types of messages, or globs. Null: all except `usage.recorded`.", ["credits.*"])),
  description: z.string().nullable().meta(words("A text for people. Null without one.", "Billing service")),
  isEnabled: z.boolean().meta(words("Whether messages are sent to it.", true)),
  createdAt: time.meta(words("When it was created.", "2026-01-15T12:00:00.000Z")),
});

export const webhookOutput = /* @__PURE__ */ lazy(() => z.strictObject(endpointOutputFields()).meta({ id: "Webhook" }));

export const newSecretOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      ...endpointOutputFields(),
      secret: z
        .string()
        .meta(
          words(
            "The secret that signs messages. Returned only here.",
            "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazyJtbTDpLQ=",
          ),
        ),
    })
    .meta({ id: "WebhookWithSecret" }),
);

export const sentOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({ messageId: z.string().meta(words("The message's id.", "msg_0VEGuQMw9bT0rKf7yLwZ3Hd5cQx2vN")) })
    .meta({ id: "SentMessage" }),
);

const URL_CHARACTERS_MAX = 2_000;

const TYPES_MAX = 50;

export const url = lazy(() =>
  z
    .string()
    .max(URL_CHARACTERS_MAX, `must have at most ${URL_CHARACTERS_MAX} characters`)
    .superRefine((text, context) => {
      const message = urlAdvice(text);
      if (message !== null) context.addIssue({ code: "custom", message });
    })
    .superRefine(rejectKeys)
    .meta(words("https, or http on a loopback host.", "https://example.com/webhooks")),
);

export const types = lazy(() =>
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
    .meta(
      words(
        "Types of messages, or globs such as `credits.*`. Default: all types except `usage.recorded`, which you must name.",
        ["credits.*"],
      ),
    ),
);

export const description = lazy(() => freeText(500).nullish().meta(words("A text for people.", "Billing service")));

/** A message as endpoints receive it. */
export const message = lazy(() =>
  z
    .strictObject({
      id: z.string().meta(words("The message's id. It is the same in every attempt.", messageId)),
      type: z.string().meta(words("The type of the message.", "purser.test")),
      timestamp: time.meta(words("When it was written, by the environment's time.", "2026-01-15T12:00:00.000Z")),
      appId: z.string().meta(words("The application's id.", "app_3kDw9pX1sB6vMn0qTzR7Ge")),
      mode,
      data: z.looseObject({}).meta(words("The data, which depend on the type.", {})),
    })
    .meta({ id: "Message" }),
);
