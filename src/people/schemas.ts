import * as z from "zod/mini";
import { about, described } from "#described";
import { identifier, timestamp } from "../http/fields.ts";

const distinctId = described(identifier(), about("Any distinct id of the person."));
export const decision = described(z.enum(["granted", "denied", "withdrawn"]), about({ id: "ConsentDecision" }));

export const consentInput = described(
  z.strictObject({
    distinctId,
    purpose: described(identifier(), about("The purpose that was asked for, such as `analytics`.")),
    decision,
    method: described(z.optional(identifier()), about("How the decision was given, such as `banner`.")),
    noticeVersion: described(z.optional(identifier()), about("The version of the notice that was shown.")),
    source: described(z.optional(identifier()), about("Where it was given, such as a page.")),
    gpc: described(z.optional(z.boolean()), about("Whether the browser sent Global Privacy Control.")),
    isDevice: described(
      z.optional(z.boolean()),
      about(
        "Whether this is a visitor whom nobody knows yet, by an SDK's device id. Otherwise the id is a user's from then on, whom no publishable key can link. With a secret key alone.",
      ),
    ),
    occurredAt: described(z.optional(timestamp), about("When the decision was given. Default: now.")),
  }),
  about({ id: "RecordConsent" }),
);
export type ConsentInput = z.infer<typeof consentInput>;

/** A distinct id or an event name, as PostHog's clients send them (W9). */
export const nameOrId = identifier(200);
