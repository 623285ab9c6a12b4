import { setEndUserAuth } from "../../catalog/apps.ts";
import { endUserAuthOutput } from "../../catalog/responses.ts";
import { setEndUserAuthInput } from "../../catalog/schemas.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

const setting = {
  type: "jwks",
  url: "https://auth.example.com/.well-known/jwks.json",
  issuer: "https://auth.example.com",
  audience: "writing-desk",
};

export default operation({
  id: "setEndUserAuth",
  method: "put",
  path: "/api/v1/admin/apps/{appId}/end-user-auth",
  tag: "Administration",
  access: administration("access", "argument"),
  params: appParams,
  body: setEndUserAuthInput,
  output: () => endUserAuthOutput,
  errors: ["secrets_unavailable"],
  warns: true,
  summary: "Set how user tokens are verified",
  description:
    "Sets, for one mode, how Purser verifies the tokens of your users. The setting takes effect at once, for " +
    "reads at a replica within seconds. A secret is not returned again. A claim that ends in `email`, `phone` or " +
    "`phone_number` names the user only in a token where the same name with `_verified` is true.",
  returns: "The setting, without its secret.",
  example: () => ({ body: { mode: "live", setting }, output: { appId: EXAMPLE.appId, mode: "live", setting } }),
  handler: (admin, { params, body }) => setEndUserAuth(admin, params.appId, body),
});
