import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";

import { readStripe } from "../../payments/stripe-setting.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleStripeSettings, stripeOutput } from "./payment-shapes.ts";

export default operation({
  id: "getStripe",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/stripe",
  tag: "Administration",
  access: administration("read", "argument"),
  params: appParams,
  query: lazy(() => z.object({ mode: mode.meta(words("The mode whose setting it is.", "live")) })),
  ...(WITH_REFERENCE && {
    output: () => stripeOutput,
    summary: "Get how Stripe's events are received",
    description: "Returns the setting of one mode, with the time of the last event.",
    returns: "The setting, without its secrets.",
    example: () => ({ output: exampleStripeSettings }),
  }),
  handler: (admin, { params, query }) => readStripe(admin, params.appId, query.mode),
});
