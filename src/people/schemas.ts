import * as z from "zod";
import { identifier, timestamp } from "../http/fields.ts";

export const distinctId = identifier().describe("The person, by any of their ids.");
const decision = z.enum(["granted", "denied", "withdrawn"]);

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

const time = z.string().meta({ format: "date-time" });

export const consentEntry = z
  .strictObject({
    consentId: z.string(),
    distinctId: z.string(),
    purpose: z.string(),
    decision,
    method: z.string().nullable(),
    noticeVersion: z.string().nullable(),
    source: z.string().nullable(),
    gpc: z.boolean().nullable(),
    occurredAt: time,
    receivedAt: time,
  })
  .meta({ id: "ConsentEntry" });
export type ConsentEntry = z.infer<typeof consentEntry>;

/** A distinct id or an event's name, as PostHog's clients send them (W9). */
export const nameOrId = identifier(200);

/**
 * What an event or a person may hold. D1 takes values of 2 MB, and a row travels as JSON in which every quote of its
 * properties takes two bytes.
 */
export const propertiesBytesMax = 980_000;

/** What the v0 capture routes answer. `refused` tells of events that are not stored; the others are. */
export const captureOutput = z.strictObject({
  status: z.literal(1),
  refused: z
    .array(z.strictObject({ index: z.int(), param: z.string(), message: z.string() }))
    .optional()
    .describe("Events of the batch that are malformed and were not stored."),
});
export type CaptureOutput = z.infer<typeof captureOutput>;

/** What the v1 capture route answers: a result for each event, by its UUID as it was sent. */
export const captureV1Output = z.strictObject({
  results: z.record(
    z.string(),
    z.strictObject({ result: z.enum(["ok", "warning", "drop"]), details: z.string().optional() }),
  ),
});
export type CaptureV1Output = z.infer<typeof captureV1Output>;
