import * as z from "zod";
import { time } from "../http/responses.ts";
import { decision } from "./schemas.ts";

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
    isDevice: z.boolean(),
    occurredAt: time,
    receivedAt: time,
  })
  .meta({ id: "ConsentEntry" });
export type ConsentEntry = z.infer<typeof consentEntry>;

/** The response of the v0 capture routes. Events that are not in `refused` are stored. */
export const captureOutput = z
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
  .meta({ id: "CaptureResult" });
export type CaptureOutput = z.infer<typeof captureOutput>;

/** The response of the v1 capture route: a result for each event, by its UUID as it was sent. */
export const captureV1Output = z
  .strictObject({
    results: z.record(
      z.string(),
      z
        .strictObject({ result: z.enum(["ok", "warning", "drop"]), details: z.string().optional() })
        .meta({ id: "CaptureV1EventResult" }),
    ),
  })
  .meta({ id: "CaptureV1Result" });
export type CaptureV1Output = z.infer<typeof captureV1Output>;
