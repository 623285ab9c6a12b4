import * as z from "zod";
import { endUserSetting } from "../../auth/end-user-setting.ts";
import { setEndUserAuth } from "../../catalog/apps.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { settingNames } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

/** The visible part of the setting, without the secret. */
const shownEndUserAuth = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      type: z
        .enum(["jwks", "hs256"])
        .meta(words("How tokens are verified: by public keys, or by a shared secret.", "jwks")),
      url: z.string().optional().meta(words("The URL.", "https://auth.example.com/.well-known/jwks.json")),
      issuer: z.string().optional().meta(words("The `iss` of the tokens.", "https://auth.example.com")),
      audience: z
        .string()
        .nullable()
        .optional()
        .meta(words("The `aud` of the tokens. Null: tokens have none.", "writing-desk")),
      claim: z.string().optional().meta(words("The claim that has the user's id.", "sub")),
      payerClaim: z.string().optional().meta(words("The claim that has the ids of payers.", "org_id")),
      payerPrefix: z.string().optional().meta(words("Written before each of them.", "org:")),
      trustUnverified: z
        .boolean()
        .optional()
        .meta(words("Whether ids that publishable keys linked count as the user's.", false)),
      trustUserWritten: z
        .boolean()
        .optional()
        .meta(words("Whether data that the user can write count as the user's.", false)),
      origins: z
        .array(z.string())
        .optional()
        .meta(words("The origins of your pages, for CORS.", ["https://example.com"])),
    })
    .meta({ id: "ShownEndUserSetting" }),
);

export const endUserAuthOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      appId: z.string().meta(words("The application's id.", "app_3kDw9pX1sB6vMn0qTzR7Ge")),
      mode,
      setting: shownEndUserAuth.nullable().meta(words("The setting. Null: none.")),
    })
    .meta({ id: "EndUserAuth" }),
);

export const setEndUserAuthInput = lazy(() =>
  z
    .strictObject({
      mode,
      setting: endUserSetting
        .meta({ id: "EndUserSetting" })
        .nullable()
        .meta(words("Null: publishable keys cannot read anything.")),
    })
    .meta({ id: "SetEndUserAuth", wrongNames: { mode: "environment env", ...settingNames } }),
);

export const exampleEndUserSetting = {
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
  errors: ["secrets_unavailable"],
  warns: true,
  ...(WITH_REFERENCE && {
    output: () => endUserAuthOutput,
    summary: "Set how user tokens are verified",
    description:
      "Sets, for one mode, how Purser verifies the tokens of your users. The setting takes effect at once, for " +
      "reads at a replica within seconds. A secret is not returned again. A claim that ends in `email`, `phone` or " +
      "`phone_number` names the user only in a token where the same name with `_verified` is true.",
    returns: "The setting, without its secret.",
    example: () => {
      const auth = { mode: "live", setting: exampleEndUserSetting };
      return { body: auth, output: { appId: EXAMPLE.appId, ...auth } };
    },
  }),
  handler: (admin, { params, body }) => setEndUserAuth(admin, params.appId, body),
});
