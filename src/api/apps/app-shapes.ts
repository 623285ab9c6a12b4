import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { time } from "../../http/output-fields.ts";
import { analyticsDefaults } from "../../people/limits/daily-limits.ts";
import { EXAMPLE } from "../common.ts";

export const exampleApp = { appId: EXAMPLE.appId, name: "Writing desk", database: "DB", createdAt: EXAMPLE.createdAt };

export const limits = {
  appId: EXAMPLE.appId,
  mode: "live",
  analytics: { ...analyticsDefaults, eventsADay: 5_000_000 },
  today: { day: "2026-01-15", events: 61_204, bytes: 31_990_112, eventsOfOneId: 412, bytesOfOneId: 260_118 },
  reached: [{ limit: "eventsADay", at: "2026-01-12T21:14:09.120Z" }],
};

export const now = "2026-02-15T12:00:00.000Z";

export const ready = { now, status: "ready" };

export const appOutputSchema = z.lazy(() =>
  z
    .strictObject({
      appId: z.string(),
      name: z.string(),
      database: z.string().describe("The application's database."),
      createdAt: time,
    })
    .meta({ id: "App" }),
);

export const clockOutput = z.lazy(() =>
  z
    .strictObject({
      now: z
        .string()
        .meta({ format: "date-time" })
        .nullable()
        .describe("The environment's time. Null when it has no clock."),
      status: z
        .enum(["advancing", "ready"])
        .describe(
          "`advancing`: events in between are still being processed, and the environment's time is the moment reached so far.",
        ),
    })
    .meta({ id: "TestClock" }),
);

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
