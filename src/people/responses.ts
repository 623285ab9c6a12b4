import * as z from "zod";
import { decision } from "./schemas.ts";

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

/** What the v0 capture routes answer. `refused` tells of events that are not stored; the others are. */
const captureOutput = z.strictObject({
  status: z.literal(1),
  refused: z
    .array(z.strictObject({ index: z.int(), param: z.string(), message: z.string() }))
    .optional()
    .describe("Events of the batch that are malformed and were not stored."),
});
export type CaptureOutput = z.infer<typeof captureOutput>;

/** What the v1 capture route answers: a result for each event, by its UUID as it was sent. */
const captureV1Output = z.strictObject({
  results: z.record(
    z.string(),
    z.strictObject({ result: z.enum(["ok", "warning", "drop"]), details: z.string().optional() }),
  ),
});
export type CaptureV1Output = z.infer<typeof captureV1Output>;
