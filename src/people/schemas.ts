import * as z from "zod";
import { identifier, mode } from "../http/fields.ts";
import { analyticsDefaults } from "./limits/daily-limits.ts";

export const decision = z.lazy(() => z.enum(["granted", "denied", "withdrawn"]).meta({ id: "ConsentDecision" }));

/** A distinct id or an event name, as PostHog's clients send them (W9). */
export const nameOrId = z.lazy(() => identifier(200));

/** Far more than a database can store. */
const LIMIT_MAX = 10 ** 15;

const analyticsLimitInput = (value: number, description: string) =>
  z.int().min(0).max(LIMIT_MAX).optional().describe(`${description} The default is ${value}.`);

const analyticsLimits = z.lazy(() =>
  z
    .strictObject({
      eventsADay: analyticsLimitInput(analyticsDefaults.eventsADay, "Events of the environment in a UTC day."),
      bytesADay: analyticsLimitInput(analyticsDefaults.bytesADay, "Bytes of these events as stored, in a UTC day."),
      eventsADayOfOneId: analyticsLimitInput(
        analyticsDefaults.eventsADayOfOneId,
        "Events of one distinct id in a UTC day. Ids that many clients share, such as `anonymous`, have no such limit.",
      ),
      bytesADayOfOneId: analyticsLimitInput(
        analyticsDefaults.bytesADayOfOneId,
        "Bytes of these events as stored, in a UTC day.",
      ),
    })
    .meta({ id: "SetAnalyticsLimits" }),
);

export const setLimitsInput = z.lazy(() =>
  z
    .strictObject({
      mode,
      analytics: analyticsLimits
        .nullable()
        .describe("All limits. A limit that is missing becomes the default. Null: the defaults."),
    })
    .meta({ id: "SetLimits" }),
);
export type SetLimitsInput = z.infer<typeof setLimitsInput>;
