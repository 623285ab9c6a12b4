import * as z from "zod";
import { identifier, mode, shortText, timestamp } from "../http/fields.ts";
import { analyticsDefaults } from "./limits/count.ts";

const distinctId = z.lazy(() => identifier()).describe("Any distinct id of the person.");
export const decision = z.lazy(() => z.enum(["granted", "denied", "withdrawn"]).meta({ id: "ConsentDecision" }));

export const consentInput = z.lazy(() =>
  z
    .strictObject({
      distinctId,
      purpose: identifier().describe("The purpose that was asked for, such as `analytics`."),
      decision,
      method: shortText().optional().describe("How the decision was given, such as `banner`."),
      noticeVersion: shortText().optional().describe("The version of the notice that was shown."),
      source: shortText().optional().describe("Where it was given, such as a page."),
      gpc: z.boolean().optional().describe("Whether the browser sent Global Privacy Control."),
      isDevice: z
        .boolean()
        .optional()
        .describe(
          "Whether the consent is of an anonymous visitor, and the id is an SDK's device id. Otherwise the id is a user from then on, and no publishable key can link it. Only with a secret key.",
        ),
      occurredAt: timestamp
        .optional()
        .describe(
          "When the decision was given. Default: now. With a publishable key at most a day ago and 5 minutes ahead; `denied` and `withdrawn` are stored anyway, with the time of arrival.",
        ),
    })
    .meta({ id: "RecordConsent" }),
);
export type ConsentInput = z.infer<typeof consentInput>;

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

export const readLimitsInput = z.lazy(() => z.object({ mode: mode.describe("The mode of the limits.") }));
