import * as z from "zod";

export const apiKey = z.lazy(() =>
  z
    .string()
    .describe(
      "A key of Purser: publishable in a browser or an app, relay in a service that forwards data of others, secret on a server.",
    ),
);

const analyticsProperties = z.lazy(() => z.looseObject({}).describe("Any properties."));

export const eventFields = () => ({
  event: z.string().describe("The event's name."),
  distinct_id: z
    .union([z.string(), z.number()])
    .optional()
    .describe("The id of the sender. `$distinct_id`, or `distinct_id` in `properties`, is read as well."),
  uuid: z.string().optional().describe("An event with a UUID that is already stored is not stored again."),
  timestamp: z.unknown().optional().describe("When it happened. Default: now."),
  properties: analyticsProperties.optional(),
});

export const tokenParams = z.lazy(() => z.object({ token: z.string().describe("A publishable key.") }));

export const publishableKey = "pk_live_6nPz0vQ4tH8kXw2yBc5mAbCd";

export const exampleAnalyticsEvent = { event: "signed up", distinct_id: "user_42", properties: { plan: "pro" } };

/**
 * The remote configuration that PostHog's clients request. All optional features of it are off, so that the client's own settings
 * decide.
 */
export function clientConfig(token: string) {
  return {
    token,
    supportedCompression: ["gzip-js", "base64"],
    hasFeatureFlags: false,
    defaultIdentifiedOnly: true,
    isAuthenticated: false,
    toolbarParams: {},
    siteApps: [],
    autocapture_opt_out: false,
    autocaptureExceptions: false,
    captureDeadClicks: false,
    capturePerformance: false,
    elementsChainAsString: true,
    errorTracking: { autocaptureExceptions: false, suppressionRules: [] },
    heatmaps: false,
    logs: { captureConsoleLogs: false },
    conversations: false,
    productTours: false,
    sessionRecording: false,
    surveys: false,
  };
}
