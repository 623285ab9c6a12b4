import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
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

export const now = "2030-02-15T12:00:00.000Z";

export const ready = { now, status: "ready" };

export const appOutputSchema = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      appId: z.string().meta(words("The application's id.", "app_3kDw9pX1sB6vMn0qTzR7Ge")),
      name: z.string().meta(words("The name, for people.", "Writing desk")),
      database: z.string().meta(words("The application's database.", "DB")),
      createdAt: time.meta(words("When it was created.", "2026-01-15T12:00:00.000Z")),
    })
    .meta({ id: "App" }),
);

export const clockOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      now: z
        .string()
        .meta({ format: "date-time" })
        .nullable()
        .meta(words("The environment's time. Null when it has no clock.", "2030-02-15T12:00:00.000Z")),
      status: z
        .enum(["advancing", "ready"])
        .meta(
          words(
            "`advancing`: events in between are still being processed, and the environment's time is the moment reached so far.",
            "ready",
          ),
        ),
    })
    .meta({ id: "TestClock" }),
);

const analyticsLimitOutput = /* @__PURE__ */ lazy(() =>
  z
    .enum(["eventsADay", "bytesADay", "eventsADayOfOneId", "bytesADayOfOneId", "databaseBytes", "claims"])
    .meta({ id: "ReachedAnalyticsLimit" })
    .meta(
      words(
        "`databaseBytes`: the database was almost full, so that analytics were not stored. `claims`: an id made as many links by publishable and relay keys as it may (100 a day, 1,000 in all), and a further one linked nothing. `eventsADay`, `bytesADay`: the limit was reached, or ids without a verified mark filled three quarters of it.",
      ),
    ),
);

export const limitsOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      appId: z.string().meta(words("The application's id.", "app_3kDw9pX1sB6vMn0qTzR7Ge")),
      mode,
      analytics: z
        .strictObject({
          eventsADay: z.int().meta(words("Events of the environment in a UTC day.", 5_000_000)),
          bytesADay: z.int().meta(words("Bytes of these events as stored, in a UTC day.", 1_073_741_824)),
          eventsADayOfOneId: z.int().meta(words("Events of one distinct id in a UTC day.", 100_000)),
          bytesADayOfOneId: z.int().meta(words("Bytes of the events of one distinct id, in a UTC day.", 104_857_600)),
        })
        .meta({ id: "AnalyticsLimits" })
        .meta(words("The current limits.")),
      today: z
        .strictObject({
          day: z.string().meta({ format: "date" }).meta(words("The UTC day.", "2026-01-15")),
          events: z.int().meta(words("The events.", 61_204)),
          bytes: z.int().meta(words("Bytes of the events as stored.", 31_990_112)),
          eventsOfOneId: z.int().meta(words("The largest count of one distinct id.", 412)),
          bytesOfOneId: z.int().meta(words("The largest count of one distinct id.", 260_118)),
        })
        .meta({ id: "AnalyticsToday" })
        .meta(words("Today's stored events of publishable and relay keys. Secret keys are not counted.")),
      reached: z
        .array(
          z
            .strictObject({
              limit: analyticsLimitOutput.meta(
                words(
                  "`databaseBytes`: the database was almost full, so that analytics were not stored. `claims`: an id made as many links by publishable and relay keys as it may (100 a day, 1,000 in all), and a further one linked nothing. `eventsADay`, `bytesADay`: the limit was reached, or ids without a verified mark filled three quarters of it.",
                  "eventsADay",
                ),
              ),
              at: time.meta(words("The time.", "2026-01-12T21:14:09.120Z")),
            })
            .meta({ id: "ReachedLimit" }),
        )
        .meta(
          words(
            "The limits that were reached in the last 30 days, newest first: each once a day, with the time when it was first reached.",
          ),
        ),
    })
    .meta({ id: "Limits" }),
);
