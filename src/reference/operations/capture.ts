import * as z from "zod";
import { captureOutput, captureV1Output } from "../../people/responses.ts";
import type { Operation } from "../operation.ts";

const tag = "Analytics";
const apiKey = z
  .string()
  .describe(
    "A key of Purser: publishable in a browser or an app, relay in a service that forwards data of others, secret on a server.",
  );
const analyticsProperties = z.looseObject({}).describe("Any properties.");

const eventFields = {
  event: z.string().describe("The event's name."),
  distinct_id: z
    .union([z.string(), z.number()])
    .optional()
    .describe("The id of the sender. `$distinct_id`, or `distinct_id` in `properties`, is read as well."),
  uuid: z.string().optional().describe("An event with a UUID that is already stored is not stored again."),
  timestamp: z.unknown().optional().describe("When it happened. Default: now."),
  properties: analyticsProperties.optional(),
};
const captureEvent = z.looseObject(eventFields).meta({ id: "CaptureEvent" });
const captureOneEvent = z.looseObject({ api_key: apiKey.optional(), ...eventFields }).meta({ id: "CaptureOneEvent" });
const captureBatch = z
  .looseObject({
    api_key: apiKey.optional(),
    batch: z.array(captureEvent),
    sent_at: z.string().optional().describe("The client's clock when it sent the request."),
  })
  .meta({ id: "CaptureBatch" });
const captureV1Event = z
  .looseObject({ ...eventFields, uuid: z.string().describe("The event's UUID. The result has it as its key.") })
  .meta({ id: "CaptureV1Event" });
const captureV1Batch = z.looseObject({ batch: z.array(captureV1Event) }).meta({ id: "CaptureV1Batch" });

const flagsRequest = z
  .looseObject({ api_key: apiKey.optional(), token: apiKey.optional(), distinct_id: z.unknown().optional() })
  .meta({ id: "FeatureFlagsRequest" });
const remoteConfig = z.looseObject({ token: z.string(), hasFeatureFlags: z.boolean() }).meta({ id: "RemoteConfig" });
const featureFlags = z
  .looseObject({ flags: z.looseObject({}), featureFlags: z.looseObject({}), requestId: z.string() })
  .meta({ id: "FeatureFlags" });

const tokenParams = z.object({ token: z.string().describe("A publishable key.") });
const publishableKey = "pk_live_6nPz0vQ4tH8kXw2yBc5mAbCd";
const uuid = "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b";
const exampleAnalyticsEvent = { event: "signed up", distinct_id: "user_42", properties: { plan: "pro" } };

/** Returns the same operation at its other paths, which older clients call. */
function alsoAt(operation: Operation, paths: readonly string[]): readonly Operation[] {
  return paths.map((path) => ({
    ...operation,
    id: `${operation.id}${path.replace(/\W+(\w)/g, (_match, letter: string) => letter.toUpperCase())}`,
    path,
    summary: `${operation.summary} (\`${path}\`)`,
    description: `The same as \`${operation.path}\`, for older clients.`,
  }));
}

const captureEvents: Operation = {
  id: "captureEvents",
  method: "post",
  path: "/batch",
  tag,
  summary: "Store analytics events",
  description:
    "Stores the events of PostHog's clients. Each of the paths for these clients may end with a slash. The key is " +
    "in the header `Authorization`, or in the body as `api_key`; the header takes precedence. A body is a batch, " +
    "one event or a list of events; it may be compressed with gzip and encoded in base64. An event is stored once " +
    "for each `uuid`. Malformed events are listed in `refused`.",
  access: "key-inside",
  body: {
    schema: z.union([captureBatch, captureOneEvent, z.array(captureEvent)]).meta({ id: "CaptureRequest" }),
    example: { api_key: publishableKey, batch: [exampleAnalyticsEvent] },
  },
  success: { description: "The events are stored.", schema: captureOutput, example: { status: 1 }, warns: true },
  errors: [],
  writesForId: "silent",
};

const getFeatureFlags: Operation = {
  id: "getFeatureFlags",
  method: "post",
  path: "/flags",
  tag,
  summary: "Get feature flags",
  description:
    "Returns no flags, because Purser has no feature flags. PostHog's clients require a response. The key is in the " +
    "body, as `api_key` or `token`.",
  access: "key-inside",
  body: { schema: flagsRequest, example: { api_key: publishableKey, distinct_id: "user_42" } },
  success: {
    description: "No flags.",
    schema: featureFlags,
    example: { flags: {}, featureFlags: {}, requestId: "req_4ZkX0uTn2mWq8hYc1LfRsa" },
  },
  errors: [],
};

export const captureOperations: readonly Operation[] = [
  captureEvents,
  ...alsoAt(captureEvents, ["/e", "/i/v0/e", "/capture", "/track"]),
  {
    id: "captureEventsV1",
    method: "post",
    path: "/i/v1/analytics/events",
    tag,
    summary: "Store analytics events (v1)",
    description: "Stores the events of PostHog's newer clients, which send the key in the header `Authorization`.",
    access: "client",
    body: { schema: captureV1Batch, example: { batch: [{ uuid, ...exampleAnalyticsEvent }] } },
    success: {
      description: "The result of each event, by its UUID.",
      schema: captureV1Output,
      example: { results: { [uuid]: { result: "ok" } } },
      warns: true,
    },
    errors: [],
    writesForId: "silent",
  },
  getFeatureFlags,
  ...alsoAt(getFeatureFlags, ["/decide"]),
  {
    id: "getRemoteConfig",
    method: "get",
    path: "/array/{token}/config",
    tag,
    summary: "Get the client configuration",
    description: "Returns the configuration for PostHog's clients, in which every optional feature is off.",
    access: "key-inside",
    params: tokenParams,
    success: {
      description: "The configuration.",
      schema: remoteConfig,
      example: { token: publishableKey, hasFeatureFlags: false },
    },
    errors: [],
  },
  {
    id: "getRemoteConfigScript",
    method: "get",
    path: "/array/{token}/config.js",
    tag,
    summary: "Get the client configuration as a script",
    description: "Returns the same configuration as a script, which posthog-js loads.",
    access: "key-inside",
    params: tokenParams,
    success: {
      description: "The script.",
      type: "application/javascript",
      schema: z.string(),
      example: "(function(){window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{};})();",
    },
    errors: [],
  },
];
