import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { time } from "../../http/responses.ts";

const analyticsLimitOutput = z
  .enum(["eventsADay", "bytesADay", "eventsADayOfOneId", "bytesADayOfOneId", "databaseBytes"])
  .meta({ id: "ReachedAnalyticsLimit" })
  .describe("`databaseBytes`: the database was almost full, so that analytics were not stored.");

export const limitsOutput = z
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
  .meta({ id: "Limits" });
export type LimitsOutput = z.infer<typeof limitsOutput>;
