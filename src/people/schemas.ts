import * as z from "zod";
import { identifier, timestamp } from "../http/fields.ts";

const distinctId = identifier().describe("The person, by any of their ids.");
export const decision = z.enum(["granted", "denied", "withdrawn"]);

export const consentInput = z.strictObject({
  distinctId,
  purpose: identifier().describe("What was asked for, in your own words, such as `analytics`."),
  decision,
  method: identifier().optional().describe("How it was said, such as `banner`."),
  noticeVersion: identifier().optional().describe("Which notice was shown."),
  source: identifier().optional().describe("Where it was said, such as a page."),
  gpc: z.boolean().optional().describe("Whether the browser sent Global Privacy Control."),
  occurredAt: timestamp.optional().describe("Now, when omitted."),
});
export type ConsentInput = z.infer<typeof consentInput>;

/** A distinct id or an event's name, as PostHog's clients send them (W9). */
export const nameOrId = identifier(200);

/**
 * What an event or a person may hold. D1 takes values of 2 MB, and a row travels as JSON in which every quote of its
 * properties takes two bytes.
 */
export const propertiesBytesMax = 980_000;
