import * as z from "zod";
import { servePublishableKey } from "../../auth/require-key.ts";
import { keyInside } from "../access.ts";
import { operation } from "../operation.ts";
import { clientConfig, publishableKey, tokenParams } from "./analytics-shapes.ts";

const remoteConfig = z.lazy(() =>
  z.looseObject({ token: z.string(), hasFeatureFlags: z.boolean() }).meta({ id: "RemoteConfig" }),
);

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
