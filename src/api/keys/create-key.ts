import * as z from "zod";
import { createKey } from "../../catalog/keys.ts";
import { displayName, mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { administration, BY_KIND } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleKey, kind } from "./key-shapes.ts";

const createKeyOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      keyId: z.string().meta(words("The key's id.", "key_8tLf2mY4cJ7hWs1xNvQ9Ba")),
      key: z.string().meta(words("The key. Returned only once.", "sk_live_6nPz0vQ4tH8kXw2yBc5mAbCd")),
      hint: z.string().meta(words("The start and the end of the key, to recognise it.", "sk_live_…AbCd")),
      kind,
      mode,
      createdAt: time.meta(words("When it was created.", "2026-01-15T12:00:00.000Z")),
    })
    .meta({ id: "NewApiKey" }),
);

export const createKeyInput = lazy(() =>
  z.strictObject({ kind, mode, name: displayName().optional().meta(words("The name, for people.", "Backend")) }).meta({
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
  ...(WITH_REFERENCE && {
    output: () => createKeyOutput,
    summary: "Create a key",
    description: "Creates a key. It is returned only once, because Purser stores only its hash.",
    returns: "The key.",
    example: () => ({
      body: { kind: "secret", mode: "live", name: "Backend" },
      output: { ...exampleKey, key: "sk_live_6nPz0vQ4tH8kXw2yBc5mAbCd" },
    }),
  }),
  handler: (admin, { params, body }) => createKey(admin, params.appId, body),
});
