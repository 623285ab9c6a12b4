import * as z from "zod";
import { setExpiryNotices } from "../../books/alerts/expiry-notices.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleNotices, expiryNoticesOutput } from "./alert-shapes.ts";

const NOTICES_MAX = 10;

const DAYS_MAX = 365;

const days = lazy(() =>
  z
    .array(z.int().min(1).max(DAYS_MAX))
    .max(NOTICES_MAX, `must have at most ${NOTICES_MAX} numbers`)
    .refine((all) => new Set(all).size === all.length, "must not have a number twice")
    .meta(words("How many days before a balance expires a notice is sent. Empty: no notices.", [30, 7, 1])),
);

export const setExpiryNoticesInput = lazy(() => z.strictObject({ mode, days }).meta({ id: "SetExpiryNotices" }));

export default operation({
  id: "setExpiryNotices",
  method: "put",
  path: "/api/v1/admin/apps/{appId}/expiry-notices",
  tag: "Administration",
  access: administration("write", "argument"),
  params: appParams,
  body: setExpiryNoticesInput,
  ...(WITH_REFERENCE && {
    output: () => expiryNoticesOutput,
    summary: "Set when notices of expiry are sent",
    description:
      "Sets, for one mode, how many days before a balance expires `balance.expiring` is sent. Replaces the whole " +
      "setting. There is no notice for a time before the grant, before the number was set, or before the first " +
      "endpoint was created.",
    returns: "The setting.",
    example: () => ({ body: exampleNotices, output: { appId: EXAMPLE.appId, ...exampleNotices } }),
  }),
  handler: (admin, { params, body }) => setExpiryNotices(admin, params.appId, body),
});
