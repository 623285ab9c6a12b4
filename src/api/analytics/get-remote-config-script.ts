import * as z from "zod";
import { keyInside } from "../access.ts";
import { servePublishableKey } from "../enter.ts";
import { operation } from "../operation.ts";
import { clientConfig, tokenParams } from "./analytics-shapes.ts";

/** The same configuration as a script, which posthog-js loads before it requests the JSON. */
function clientConfigScript(token: string): string {
  const entry = JSON.stringify({ config: clientConfig(token), siteApps: [] });
  const name = JSON.stringify(token);
  return `(function(){window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{};window._POSTHOG_REMOTE_CONFIG[${name}]=${entry};})();`;
}

export default operation({
  id: "getRemoteConfigScript",
  method: "get",
  path: "/array/{token}/config.js",
  tag: "Analytics",
  access: keyInside,
  params: tokenParams,
  outputType: "application/javascript",
  ...(WITH_REFERENCE && {
    output: () => z.string(),
    summary: "Get the client configuration as a script",
    description: "Returns the same configuration as a script, which posthog-js loads.",
    returns: "The script.",
    example: () => ({ output: "(function(){window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{};})();" }),
  }),
  handler: async (c, { params: { token } }) => {
    const script = await servePublishableKey(c, token, async () => clientConfigScript(token));
    return c.body(script, 200, { "content-type": "application/javascript; charset=utf-8" });
  },
});
