import * as z from "zod";
import { mode } from "../http/fields.ts";
import { time } from "../http/responses.ts";
import { decision } from "./schemas.ts";

export const consentEntry = z.lazy(() =>
  z
    .strictObject({
      consentId: z.string(),
      distinctId: z.string(),
      purpose: z.string(),
      decision,
      method: z.string().nullable(),
      noticeVersion: z.string().nullable(),
      source: z.string().nullable(),
      gpc: z.boolean().nullable(),
      isDevice: z.boolean(),
      occurredAt: time,
      receivedAt: time,
    })
    .meta({ id: "ConsentEntry" }),
);
export type ConsentEntry = z.infer<typeof consentEntry>;

/** The response of the v0 capture routes. Events that are not in `refused` are stored. */
export const captureOutput = z.lazy(() =>
  z
    .strictObject({
      status: z.literal(1),
      quota_limited: z
        .array(z.literal("events"))
        .optional()
        .describe("Present if events were not stored because a daily limit is reached."),
      refused: z
        .array(z.strictObject({ index: z.int(), param: z.string(), message: z.string() }).meta({ id: "RefusedEvent" }))
        .optional()
        .describe("The malformed events of the batch, which were not stored."),
    })
    .meta({ id: "CaptureResult" }),
);
export type CaptureOutput = z.infer<typeof captureOutput>;

/** The response of the v1 capture route: a result for each event, by its UUID as it was sent. */
export const captureV1Output = z.lazy(() =>
  z
    .strictObject({
      results: z.record(
        z.string(),
        z
          .strictObject({ result: z.enum(["ok", "warning", "drop"]), details: z.string().optional() })
          .meta({ id: "CaptureV1EventResult" }),
      ),
    })
    .meta({ id: "CaptureV1Result" }),
);
export type CaptureV1Output = z.infer<typeof captureV1Output>;

const analyticsLimitOutput = z.lazy(() =>
  z
    .enum(["eventsADay", "bytesADay", "eventsADayOfOneId", "bytesADayOfOneId", "databaseBytes", "claims"])
    .meta({ id: "ReachedAnalyticsLimit" })
    .describe(
      "`databaseBytes`: the database was almost full, so that analytics were not stored. `claims`: an id made as many links by publishable and relay keys as it may (100 a day, 1,000 in all), and a further one linked nothing. `eventsADay`, `bytesADay`: the limit was reached, or ids without a verified mark filled three quarters of it.",
    ),
);

export const limitsOutput = z.lazy(() =>
  z
    .strictObject({
      appId: z.string(),
      mode,
      analytics: z
        .strictObject({
          eventsADay: z.int(),
          bytesADay: z.int(),
          eventsADayOfOneId: z.int(),
          bytesADayOfOneId: z.int(),
        })
        .meta({ id: "AnalyticsLimits" })
        .describe("The current limits."),
      today: z
        .strictObject({
          day: z.string().meta({ format: "date" }).describe("The UTC day."),
          events: z.int(),
          bytes: z.int(),
          eventsOfOneId: z.int().describe("The largest count of one distinct id."),
          bytesOfOneId: z.int().describe("The largest count of one distinct id."),
        })
        .meta({ id: "AnalyticsToday" })
        .describe("Today's stored events of publishable and relay keys. Secret keys are not counted."),
      reached: z
        .array(z.strictObject({ limit: analyticsLimitOutput, at: time }).meta({ id: "ReachedLimit" }))
        .describe(
          "The limits that were reached in the last 30 days, newest first: each once a day, with the time when it was first reached.",
        ),
    })
    .meta({ id: "Limits" }),
);
export type LimitsOutput = z.infer<typeof limitsOutput>;
