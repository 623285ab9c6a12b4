import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { setLimits } from "../../people/limits/analytics-limits.ts";
import { analyticsDefaults } from "../../people/limits/daily-limits.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { limits, limitsOutput } from "./app-shapes.ts";

/** Far more than a database can store. */
const LIMIT_MAX = 10 ** 15;

const analyticsLimitInput = (value: number, description: string) =>
  z
    .int()
    .min(0)
    .max(LIMIT_MAX)
    .optional()
    .meta(words(`${description} The default is ${value}.`));

const analyticsLimits = lazy(() =>
  z
    .strictObject({
      eventsADay: analyticsLimitInput(analyticsDefaults.eventsADay, "Events of the environment in a UTC day.").meta(
        words("Events of the environment in a UTC day. The default is 1000000.", 5_000_000),
      ),
      bytesADay: analyticsLimitInput(
        analyticsDefaults.bytesADay,
        "Bytes of these events as stored, in a UTC day.",
      ).meta(words("Bytes of these events as stored, in a UTC day. The default is 1073741824.", 2_000_000_000)),
      eventsADayOfOneId: analyticsLimitInput(
        analyticsDefaults.eventsADayOfOneId,
        "Events of one distinct id in a UTC day. Ids that many clients share, such as `anonymous`, have no such limit.",
      ).meta(
        words(
          "Events of one distinct id in a UTC day. Ids that many clients share, such as `anonymous`, have no such limit. The default is 100000.",
          10_000,
        ),
      ),
      bytesADayOfOneId: analyticsLimitInput(
        analyticsDefaults.bytesADayOfOneId,
        "Bytes of these events as stored, in a UTC day.",
      ).meta(words("Bytes of these events as stored, in a UTC day. The default is 104857600.", 20_000_000)),
    })
    .meta({ id: "SetAnalyticsLimits" }),
);

export const setLimitsInput = lazy(() =>
  z
    .strictObject({
      mode,
      analytics: analyticsLimits
        .nullable()
        .meta(words("All limits. A limit that is missing becomes the default. Null: the defaults.")),
    })
    .meta({ id: "SetLimits" }),
);

export default operation({
  id: "setLimits",
  method: "put",
  path: "/api/v1/admin/apps/{appId}/limits",
  tag: "Administration",
  access: administration("settings", "argument"),
  params: appParams,
  body: setLimitsInput,
  ...(WITH_REFERENCE && {
    output: () => limitsOutput,
    summary: "Set the limits of analytics",
    description:
      "Sets the limits of one mode. They take effect at once. Only events that were sent with publishable and relay " +
      "keys count, and only such events are dropped above a limit.",
    returns: "The current limits, and today's usage.",
    example: () => ({ body: { mode: "live", analytics: { eventsADay: 5_000_000 } }, output: limits }),
  }),
  handler: (admin, { params, body }) => setLimits(admin, params.appId, body),
});
