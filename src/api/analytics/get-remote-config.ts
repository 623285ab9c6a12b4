import * as z from "zod";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { keyInside } from "../access.ts";
import { servePublishableKey } from "../enter.ts";
import { operation } from "../operation.ts";
import { clientConfig, publishableKey, tokenParams } from "./analytics-shapes.ts";

const remoteConfig = /* @__PURE__ */ lazy(() =>
  z
    .looseObject({
      token: z.string().meta(words("A publishable key.", "pk_live_6nPz0vQ4tH8kXw2yBc5mAbCd")),
      hasFeatureFlags: z.boolean().meta(words("Always false: Purser has no feature flags.", false)),
    })
    .meta({ id: "RemoteConfig" }),
);

export default operation({
  id: "getRemoteConfig",
  method: "get",
  path: "/array/{token}/config",
  tag: "Analytics",
  access: keyInside,
  params: tokenParams,
  ...(WITH_REFERENCE && {
    output: () => remoteConfig,
    summary: "Get the client configuration",
    description: "Returns the configuration for PostHog's clients, in which every optional feature is off.",
    returns: "The configuration.",
    example: () => ({ output: { token: publishableKey, hasFeatureFlags: false } }),
  }),
  handler: (c, { params: { token } }) => servePublishableKey(c, token, async () => clientConfig(token)),
});
