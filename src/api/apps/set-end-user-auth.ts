import * as z from "zod";
import { endUserSetting } from "../../auth/end-user-setting.ts";
import { setEndUserAuth } from "../../catalog/apps.ts";
import { mode } from "../../http/fields.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

/** The visible part of the setting, without the secret. */
const shownEndUserAuth = z.lazy(() =>
  z
    .strictObject({
      type: z.enum(["jwks", "hs256"]).describe("How tokens are verified: by public keys, or by a shared secret."),
      url: z.string().optional(),
      issuer: z.string().optional(),
      audience: z.string().nullable().optional(),
      claim: z.string().optional(),
      trustUnverified: z.boolean().optional(),
      trustUserWritten: z.boolean().optional(),
      origins: z.array(z.string()).optional(),
    })
    .meta({ id: "ShownEndUserSetting" }),
);

const endUserAuthOutput = z.lazy(() =>
  z.strictObject({ appId: z.string(), mode, setting: shownEndUserAuth.nullable() }).meta({ id: "EndUserAuth" }),
);

export const setEndUserAuthInput = z.lazy(() =>
  z
    .strictObject({
      mode,
      setting: endUserSetting
        .meta({ id: "EndUserSetting" })
        .nullable()
        .describe("Null: publishable keys cannot read anything."),
    })
    .meta({ id: "SetEndUserAuth" }),
);

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
