import * as z from "zod";
import { readExpiryNotices } from "../../books/alerts/expiry-notices.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleNotices, expiryNoticesOutput } from "./alert-shapes.ts";

export default operation({
  id: "getExpiryNotices",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/expiry-notices",
  tag: "Administration",
  access: administration("read", "argument"),
  params: appParams,
  query: lazy(() => z.object({ mode: mode.meta(words("The mode whose notices they are.", "live")) })),
  ...(WITH_REFERENCE && {
    output: () => expiryNoticesOutput,
    summary: "Get when notices of expiry are sent",
    description: "Returns the setting of one mode.",
    returns: "The setting.",
    example: () => ({ output: { appId: EXAMPLE.appId, ...exampleNotices } }),
  }),
  handler: (admin, { params, query }) => readExpiryNotices(admin, params.appId, query.mode),
});
