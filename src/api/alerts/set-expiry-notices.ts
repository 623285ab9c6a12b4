import { setExpiryNotices } from "../../books/alerts/expiry-notices.ts";
import { expiryNoticesOutput } from "../../books/alerts/responses.ts";
import { setExpiryNoticesInput } from "../../books/alerts/schemas.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { notices } from "./shapes.ts";

export default operation({
  id: "setExpiryNotices",
  method: "put",
  path: "/api/v1/admin/apps/{appId}/expiry-notices",
  tag: "Administration",
  access: administration("write", "argument"),
  params: appParams,
  body: setExpiryNoticesInput,
  output: () => expiryNoticesOutput,
  summary: "Set when notices of expiry are sent",
  description:
    "Sets, for one mode, how many days before a balance expires `balance.expiring` is sent. Replaces the whole " +
    "setting. There is no notice for a time before the grant, before the number was set, or before the first " +
    "endpoint was created.",
  returns: "The setting.",
  example: () => ({ body: notices, output: { appId: EXAMPLE.appId, ...notices } }),
  handler: (admin, { params, body }) => setExpiryNotices(admin, params.appId, body),
});
