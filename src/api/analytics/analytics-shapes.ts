import * as z from "zod";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";

export const apiKey = lazy(() =>
  z
    .string()
    .meta(
      words(
        "A key of Purser: publishable in a browser or an app, relay in a service that forwards data of others, secret on a server.",
      ),
    ),
);

const analyticsProperties = lazy(() => z.looseObject({}).meta(words("Any properties.", { plan: "pro" })));

export const eventFields = () => ({
  event: z.string().meta(words("The event's name.", "chat.completed")),
  distinct_id: z
    .union([z.string(), z.number()])
    .optional()
    .meta(words("The id of the sender. `$distinct_id`, or `distinct_id` in `properties`, is read as well.", "user_42")),
  uuid: z
    .string()
    .optional()
    .meta(
      words("An event with a UUID that is already stored is not stored again.", "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b"),
    ),
  timestamp: z.unknown().optional().meta(words("When it happened. Default: now.", "2026-01-16T08:30:00.000Z")),
  properties: analyticsProperties.optional(),
});

export const tokenParams = lazy(() =>
  z.object({ token: z.string().meta(words("A publishable key.", "pk_live_6nPz0vQ4tH8kXw2yBc5mAbCd")) }),
);

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
