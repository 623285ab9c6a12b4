import { stripeOutput } from "../../payments/responses.ts";
import { setStripeInput } from "../../payments/schemas.ts";
import { setStripe } from "../../payments/stripe-setting.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleStripeSettings, prices } from "./shapes.ts";

export default operation({
  id: "setStripe",
  method: "put",
  path: "/api/v1/admin/apps/{appId}/stripe",
  tag: "Administration",
  access: administration("access", "argument"),
  params: appParams,
  body: setStripeInput,
  output: () => stripeOutput,
  errors: ["credit_pack_not_found", "secrets_unavailable"],
  warns: true,
  summary: "Set how Stripe's events are received",
  description:
    "Sets, for one mode, how Purser verifies and applies Stripe's events. The setting takes effect at once. A " +
    "secret is not returned again. Without `signingSecrets`, the existing secrets stay.",
  returns: "The setting, without its secrets.",
  example: () => ({
    body: { mode: "live", setting: { signingSecrets: ["whsec_8f2aQ1xYb0c9d8e7AbCd"], prices } },
    output: exampleStripeSettings,
  }),
  handler: (admin, { params, body }) => setStripe(admin, params.appId, body),
});
