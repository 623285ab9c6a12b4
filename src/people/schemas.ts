import * as z from "zod/mini";
import { described } from "../http/described.ts";
import { identifier, timestamp } from "../http/fields.ts";

const distinctId = described(identifier(), "Any distinct id of the person.");
export const decision = described(z.enum(["granted", "denied", "withdrawn"]), { id: "ConsentDecision" });

export const consentInput = described(
  z.strictObject({
    distinctId,
    purpose: described(identifier(), "The purpose that was asked for, such as `analytics`."),
    decision,
    method: described(z.optional(identifier()), "How the decision was given, such as `banner`."),
    noticeVersion: described(z.optional(identifier()), "The version of the notice that was shown."),
    source: described(z.optional(identifier()), "Where it was given, such as a page."),
    gpc: described(z.optional(z.boolean()), "Whether the browser sent Global Privacy Control."),
    occurredAt: described(z.optional(timestamp), "When the decision was given. Default: now."),
  }),
  { id: "RecordConsent" },
);
export type ConsentInput = z.infer<typeof consentInput>;

/** A distinct id or an event name, as PostHog's clients send them (W9). */
export const nameOrId = identifier(200);
