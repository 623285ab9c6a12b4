import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { analyticsDefaults } from "./count.ts";

/** Far above what a database holds. */
const LIMIT_MAX = 10 ** 15;

const analyticsLimitInput = (value: number, what: string) =>
  z.int().min(0).max(LIMIT_MAX).optional().describe(`${what} The default is ${value}.`);

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
        .describe("All limits. A missing one becomes the default again. Null: the defaults."),
    })
    .meta({ id: "SetLimits" }),
);
export type SetLimitsInput = z.infer<typeof setLimitsInput>;

export const readLimitsInput = z.lazy(() => z.object({ mode: mode.describe("The mode whose limits they are.") }));
