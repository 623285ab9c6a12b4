import * as z from "zod";

const apiKey = z.lazy(() =>
  z
    .string()
    .describe(
      "A key of Purser: publishable in a browser or an app, relay in a service that forwards data of others, secret on a server.",
    ),
);
const analyticsProperties = z.lazy(() => z.looseObject({}).describe("Any properties."));

const eventFields = () => ({
  event: z.string().describe("The event's name."),
  distinct_id: z
    .union([z.string(), z.number()])
    .optional()
    .describe("The id of the sender. `$distinct_id`, or `distinct_id` in `properties`, is read as well."),
  uuid: z.string().optional().describe("An event with a UUID that is already stored is not stored again."),
  timestamp: z.unknown().optional().describe("When it happened. Default: now."),
  properties: analyticsProperties.optional(),
});
export const captureEvent = z.lazy(() => z.looseObject(eventFields()).meta({ id: "CaptureEvent" }));
export const captureOneEvent = z.lazy(() =>
  z.looseObject({ api_key: apiKey.optional(), ...eventFields() }).meta({ id: "CaptureOneEvent" }),
);
export const captureBatch = z.lazy(() =>
  z
    .looseObject({
      api_key: apiKey.optional(),
      batch: z.array(captureEvent),
      sent_at: z.string().optional().describe("The client's clock when it sent the request."),
    })
    .meta({ id: "CaptureBatch" }),
);
const captureV1Event = z.lazy(() =>
  z
    .looseObject({ ...eventFields(), uuid: z.string().describe("The event's UUID. The result has it as its key.") })
    .meta({ id: "CaptureV1Event" }),
);
export const captureV1Batch = z.lazy(() =>
  z.looseObject({ batch: z.array(captureV1Event) }).meta({ id: "CaptureV1Batch" }),
);

export const flagsRequest = z.lazy(() =>
  z
    .looseObject({ api_key: apiKey.optional(), token: apiKey.optional(), distinct_id: z.unknown().optional() })
    .meta({ id: "FeatureFlagsRequest" }),
);
export const remoteConfig = z.lazy(() =>
  z.looseObject({ token: z.string(), hasFeatureFlags: z.boolean() }).meta({ id: "RemoteConfig" }),
);
export const featureFlags = z.lazy(() =>
  z
    .looseObject({ flags: z.looseObject({}), featureFlags: z.looseObject({}), requestId: z.string() })
    .meta({ id: "FeatureFlags" }),
);

export const tokenParams = z.lazy(() => z.object({ token: z.string().describe("A publishable key.") }));
export const publishableKey = "pk_live_6nPz0vQ4tH8kXw2yBc5mAbCd";
export const uuid = "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b";
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

/** The same configuration as a script, which posthog-js loads before it requests the JSON. */
export function clientConfigScript(token: string): string {
  const entry = JSON.stringify({ config: clientConfig(token), siteApps: [] });
  const name = JSON.stringify(token);
  return `(function(){window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{};window._POSTHOG_REMOTE_CONFIG[${name}]=${entry};})();`;
}
