import { setLimits } from "../../people/limits/limits.ts";
import { limitsOutput } from "../../people/responses.ts";
import { setLimitsInput } from "../../people/schemas.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { limits } from "./shapes.ts";

export default operation({
  id: "setLimits",
  method: "put",
  path: "/api/v1/admin/apps/{appId}/limits",
  tag: "Administration",
  access: administration("settings", "argument"),
  params: appParams,
  body: setLimitsInput,
  output: () => limitsOutput,
  summary: "Set the limits of analytics",
  description:
    "Sets the limits of one mode. They take effect at once. Only events that were sent with publishable and relay " +
    "keys count, and only such events are dropped above a limit.",
  returns: "The current limits, and today's usage.",
  example: () => ({ body: { mode: "live", analytics: { eventsADay: 5_000_000 } }, output: limits }),
  handler: (admin, { params, body }) => setLimits(admin, params.appId, body),
});
