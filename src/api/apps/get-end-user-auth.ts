import * as z from "zod";
import { readEndUserAuth } from "../../catalog/apps.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { endUserAuthOutput, exampleEndUserSetting } from "./set-end-user-auth.ts";

export default operation({
  id: "getEndUserAuth",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/end-user-auth",
  tag: "Administration",
  access: administration("read", "argument"),
  params: appParams,
  query: lazy(() => z.object({ mode: mode.meta(words("The mode whose setting it is.", "live")) })),
  ...(WITH_REFERENCE && {
    output: () => endUserAuthOutput,
    summary: "Get how user tokens are verified",
    description: "Returns the setting of one mode, without its secret.",
    returns: "The setting.",
    example: () => ({ output: { appId: EXAMPLE.appId, mode: "live", setting: exampleEndUserSetting } }),
  }),
  handler: (admin, { params, query }) => readEndUserAuth(admin, params.appId, query.mode),
});
