import { servePublishableKey } from "../../auth/require-key.ts";
import { keyInside } from "../access.ts";
import { operation } from "../operation.ts";
import { clientConfig, publishableKey, remoteConfig, tokenParams } from "./shapes.ts";

export default operation({
  id: "getRemoteConfig",
  method: "get",
  path: "/array/{token}/config",
  tag: "Analytics",
  access: keyInside,
  params: tokenParams,
  output: () => remoteConfig,
  summary: "Get the client configuration",
  description: "Returns the configuration for PostHog's clients, in which every optional feature is off.",
  returns: "The configuration.",
  example: () => ({ output: { token: publishableKey, hasFeatureFlags: false } }),
  handler: (c, { params: { token } }) => servePublishableKey(c, token, async () => clientConfig(token)),
});
