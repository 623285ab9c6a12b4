import * as z from "zod";
import { createKey } from "../../catalog/keys.ts";
import { displayName, mode } from "../../http/fields.ts";
import { time } from "../../http/output-fields.ts";
import { administration, BY_KIND } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleKey, kind } from "./key-shapes.ts";

const createKeyOutput = z.lazy(() =>
  z
    .strictObject({
      keyId: z.string(),
      key: z.string().describe("The key. Returned only once."),
      hint: z.string(),
      kind,
      mode,
      createdAt: time,
    })
    .meta({ id: "NewApiKey" }),
);

export const createKeyInput = z.lazy(() =>
  z.strictObject({ kind, mode, name: displayName().optional() }).meta({
    id: "CreateApiKey",
  }),
);

export default operation({
  id: "createKey",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/keys",
  tag: "Administration",
  access: administration(BY_KIND, "argument"),
  params: appParams,
  body: createKeyInput,
  output: () => createKeyOutput,
  summary: "Create a key",
  description: "Creates a key. It is returned only once, because Purser stores only its hash.",
  returns: "The key.",
  example: () => ({
    body: { kind: "secret", mode: "live", name: "Backend" },
    output: { ...exampleKey, key: "sk_live_6nPz0vQ4tH8kXw2yBc5mAbCd" },
  }),
  handler: (admin, { params, body }) => createKey(admin, params.appId, body),
});
