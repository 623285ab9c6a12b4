import * as z from "zod";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { keyInside } from "../access.ts";
import { Unread } from "../body-by-type.ts";
import { serveClientKey } from "../enter.ts";
import { operation } from "../operation.ts";
import { apiKey, clientConfig, publishableKey } from "./analytics-shapes.ts";
import { ClientBody } from "./client-body.ts";

const flagsRequest = lazy(() =>
  z
    .looseObject({
      api_key: apiKey
        .optional()
        .meta(
          words(
            "A key of Purser: publishable in a browser or an app, relay in a service that forwards data of others, secret on a server.",
            "pk_live_6nPz0vQ4tH8kXw2yBc5mAbCd",
          ),
        ),
      token: apiKey
        .optional()
        .meta(
          words(
            "A key of Purser: publishable in a browser or an app, relay in a service that forwards data of others, secret on a server.",
            "pk_live_6nPz0vQ4tH8kXw2yBc5mAbCd",
          ),
        ),
      distinct_id: z.unknown().optional().meta(words("The id of the sender.", "user_42")),
    })
    .meta({ id: "FeatureFlagsRequest" }),
);

const featureFlags = /* @__PURE__ */ lazy(() =>
  z
    .looseObject({
      flags: z.looseObject({}).meta(words("Empty: Purser has no feature flags.", {})),
      featureFlags: z.looseObject({}).meta(words("Empty: Purser has no feature flags.", {})),
      requestId: z.string().meta(words("The request's id, also in `x-request-id`.", "req_4ZkX0uTn2mWq8hYc1LfRsa")),
    })
    .meta({ id: "FeatureFlags" }),
);

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

export default operation({
  id: "getFeatureFlags",
  method: "post",
  path: "/flags",
  aliases: ["/decide"],
  maySlash: true,
  tag: "Analytics",
  access: keyInside,
  body: new Unread(() => flagsRequest),
  ...(WITH_REFERENCE && {
    output: () => featureFlags,
    summary: "Get feature flags",
    description:
      "Returns no flags, because Purser has no feature flags. PostHog's clients require a response. The key is in the " +
      "body, as `api_key` or `token`.",
    returns: "No flags.",
    example: () => ({
      body: { api_key: publishableKey, distinct_id: "user_42" },
      output: { flags: {}, featureFlags: {}, requestId: "req_4ZkX0uTn2mWq8hYc1LfRsa" },
    }),
  }),
  handler: (c) => {
    const body = new ClientBody(c);
    return serveClientKey(
      c,
      () => body.key(),
      async () => {
        await body.parse();
        const key = await body.key();
        // A response must not contain a secret key.
        const token = c.var.ctx.caller.kind === "secret" ? "" : (key ?? "");
        return emptyFlags(token, c.var.requestId, c.var.runtime.now());
      },
    );
  },
});
