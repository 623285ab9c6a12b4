import * as z from "zod/mini";
import { about, described } from "#described";
import { mode } from "../http/fields.ts";
import { analyticsDefaults } from "./analytics-limits.ts";

/** Far above what a database holds. */
const LIMIT_MAX = 10 ** 15;

const limit = (value: number, what: string) =>
  described(z.optional(z.int().check(z.minimum(0), z.maximum(LIMIT_MAX))), about(`${what} The default is ${value}.`));

const analyticsLimits = described(
  z.strictObject({
    eventsADay: limit(analyticsDefaults.eventsADay, "Events of the environment in a UTC day."),
    bytesADay: limit(analyticsDefaults.bytesADay, "Bytes of their properties."),
    eventsADayOfOneId: limit(analyticsDefaults.eventsADayOfOneId, "Events of one distinct id in a UTC day."),
    bytesADayOfOneId: limit(analyticsDefaults.bytesADayOfOneId, "Bytes of their properties."),
  }),
  about({ id: "SetAnalyticsLimits" }),
);

export const setLimitsInput = described(
  z.strictObject({
    mode,
    analytics: described(
      z.nullable(analyticsLimits),
      about("All limits that are set: one left out is the default again. Null: the defaults."),
    ),
  }),
  about({ id: "SetLimits" }),
);
export type SetLimitsInput = z.infer<typeof setLimitsInput>;

export const readLimitsInput = z.object({ mode: described(mode, about("The mode whose limits they are.")) });
