import type { Context } from "hono";
import { requireCaptureKey, serveCaptureKey, serveClientKey, servePublishableKey } from "../../auth/require-key.ts";
import { limitBody } from "../../http/body.ts";
import { callVerb } from "../../http/call-verb.ts";
import { allowBrowsers } from "../../http/cors.ts";
import { type AppEnv, createRoutes } from "../../http/factory.ts";
import { capture, captureV1 } from "./capture.ts";
import { emptyFlags, remoteConfig, remoteConfigScript } from "./feature-flags.ts";
import { keyBesideEvents, keyOfRequest, type ScannedBody, scanBody } from "./scan-body.ts";
import { unpack } from "./unpack.ts";
import { readCaptureRequest } from "./v0-request.ts";
import { readV1Request } from "./v1-request.ts";

/** Some clients end a path with a slash. */
const withSlash = (...paths: string[]): string[] => paths.flatMap((path) => [path, `${path}/`]);

const CAPTURE_PATHS = withSlash("/batch", "/e", "/i/v0/e", "/capture", "/track");
const V1_PATHS = withSlash("/i/v1/analytics/events");
const FLAG_PATHS = withSlash("/flags", "/decide");

async function readBody(c: Context<AppEnv>): Promise<ScannedBody> {
  const packing = { contentType: c.req.header("content-type"), contentEncoding: c.req.header("content-encoding") };
  return scanBody(await unpack(c.var.bodyBytes, packing));
}

/** The routes of PostHog's clients (P1). Their `api_key`, which is in the body, is a key of Purser. */
export const captureRoutes = createRoutes();
for (const path of [...CAPTURE_PATHS, ...V1_PATHS, ...FLAG_PATHS, "/array/:token/config", "/array/:token/config.js"]) {
  captureRoutes.use(path, allowBrowsers);
}
captureRoutes
  .on("POST", CAPTURE_PATHS, limitBody, async (c) => {
    const body = await readBody(c);
    const answer = () => callVerb(c, (ctx) => capture(ctx, readCaptureRequest(body, c.req.query("_"))));
    return c.json(await serveCaptureKey(c, () => keyOfRequest(body), answer));
  })
  .on("POST", V1_PATHS, requireCaptureKey, limitBody, async (c) => {
    const request = readV1Request(await readBody(c), {
      sdkInfo: c.req.header("posthog-sdk-info"),
      requestTimestamp: c.req.header("posthog-request-timestamp"),
    });
    return c.json(await callVerb(c, (ctx) => captureV1(ctx, request)));
  })
  .on("POST", FLAG_PATHS, limitBody, async (c) => {
    const key = keyBesideEvents(await readBody(c));
    // A response does not repeat a secret key.
    const answer = async () =>
      emptyFlags(c.var.ctx.caller.kind === "secret" ? "" : (key ?? ""), c.var.requestId, c.var.runtime.now());
    return c.json(await serveClientKey(c, key, answer));
  })
  .get("/array/:token/config", async (c) => {
    const token = c.req.param("token");
    return c.json(await servePublishableKey(c, token, async () => remoteConfig(token)));
  })
  .get("/array/:token/config.js", async (c) => {
    const token = c.req.param("token");
    const script = await servePublishableKey(c, token, async () => remoteConfigScript(token));
    return c.body(script, 200, { "content-type": "application/javascript; charset=utf-8" });
  });
