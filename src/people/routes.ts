import { countEvents } from "../auth/arrivals.ts";
import { declareUser } from "../auth/end-user.ts";
import { requireAdmin } from "../auth/require-admin.ts";
import {
  requireCaptureKey,
  requireKeyOrEndUser,
  serveCaptureKey,
  serveClientKey,
  servePublishableKey,
} from "../auth/require-key.ts";
import { readBody } from "../http/body.ts";
import { allowCaptureClients, callVerb, createRoutes } from "../http/factory.ts";
import { validate } from "../http/validate.ts";
import { capture, captureV1 } from "./capture/capture.ts";
import { ClientBody } from "./capture/client-body.ts";
import { readCaptureRequest, readV1Request } from "./capture/event-request.ts";
import { recordConsent } from "./consent.ts";
import { readLimits, setLimits } from "./limits/limits.ts";
import { consentInput, readLimitsInput, setLimitsInput } from "./schemas.ts";

export const consentRoutes = createRoutes().post(
  "/",
  requireKeyOrEndUser(),
  readBody,
  validate("json", consentInput),
  async (c) => {
    const input = c.req.valid("json");
    declareUser(c, "distinctId", input.distinctId);
    return c.json(await callVerb(c, (ctx) => recordConsent(ctx, input)));
  },
);

/** Administration routes of the limits of analytics. */
export const analyticsLimitRoutes = createRoutes()
  .put("/apps/:appId/limits", requireAdmin, readBody, validate("json", setLimitsInput), async (c) =>
    c.json(await setLimits(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/limits", requireAdmin, validate("query", readLimitsInput), async (c) =>
    c.json(await readLimits(c.var.admin, c.req.param("appId"), c.req.valid("query").mode)),
  );

/** Some clients end a path with a slash. */
const withSlash = (...paths: string[]): string[] => paths.flatMap((path) => [path, `${path}/`]);

const CAPTURE_PATHS = withSlash("/batch", "/e", "/i/v0/e", "/capture", "/track");
const V1_PATHS = withSlash("/i/v1/analytics/events");
const FLAG_PATHS = withSlash("/flags", "/decide");

/** The routes of PostHog's clients (P1). Their `api_key`, which is in the body, is a key of Purser. */
export const captureRoutes = createRoutes();
for (const path of [...CAPTURE_PATHS, ...V1_PATHS, ...FLAG_PATHS, "/array/:token/config", "/array/:token/config.js"]) {
  captureRoutes.use(path, allowCaptureClients);
}
captureRoutes
  .on("POST", CAPTURE_PATHS, async (c) => {
    const body = new ClientBody(c);
    const answer = async () => {
      const request = readCaptureRequest(await body.parse(), c.req.query("_"));
      await countEvents(c, request.body.events.length);
      return callVerb(c, (ctx) => capture(ctx, request));
    };
    return c.json(await serveCaptureKey(c, () => body.key(), answer));
  })
  .on("POST", V1_PATHS, requireCaptureKey, async (c) => {
    const request = readV1Request(await new ClientBody(c).parse(), {
      sdkInfo: c.req.header("posthog-sdk-info"),
      requestTimestamp: c.req.header("posthog-request-timestamp"),
    });
    await countEvents(c, request.body.events.length);
    return c.json(await callVerb(c, (ctx) => captureV1(ctx, request)));
  })
  .on("POST", FLAG_PATHS, async (c) => {
    const body = new ClientBody(c);
    const answer = async () => {
      await body.parse();
      const key = await body.key();
      // A response must not contain a secret key.
      const token = c.var.ctx.caller.kind === "secret" ? "" : (key ?? "");
      return emptyFlags(token, c.var.requestId, c.var.runtime.now());
    };
    return c.json(await serveClientKey(c, () => body.key(), answer));
  })
  .get("/array/:token/config", async (c) => {
    const token = c.req.param("token");
    return c.json(await servePublishableKey(c, token, async () => clientConfig(token)));
  })
  .get("/array/:token/config.js", async (c) => {
    const token = c.req.param("token");
    const script = await servePublishableKey(c, token, async () => clientConfigScript(token));
    return c.body(script, 200, { "content-type": "application/javascript; charset=utf-8" });
  });

/**
 * The remote configuration that PostHog's clients request. All optional features of it are off, so that the client's own settings
 * decide.
 */
function clientConfig(token: string) {
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
function clientConfigScript(token: string): string {
  const entry = JSON.stringify({ config: clientConfig(token), siteApps: [] });
  const name = JSON.stringify(token);
  return `(function(){window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{};window._POSTHOG_REMOTE_CONFIG[${name}]=${entry};})();`;
}

/** Returns a response without feature flags. It is valid for `/flags/` (v1 and v2) and for the older `/decide/`. */
function emptyFlags(token: string, requestId: string, nowMs: number) {
  return {
    ...clientConfig(token),
    flags: {},
    featureFlags: {},
    featureFlagPayloads: {},
    errorsWhileComputingFlags: false,
    quotaLimited: [],
    evaluatedAt: nowMs,
    requestId,
  };
}
