import * as z from "zod";
import { onlyModeOf } from "../../auth/scopes.ts";
import { listKeys } from "../../catalog/keys.ts";
import { cursor, pageLimit } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { nextCursor } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleKey, key } from "./key-shapes.ts";

export default operation({
  id: "listKeys",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/keys",
  tag: "Administration",
  access: administration("read", "own"),
  params: appParams,
  query: lazy(() =>
    z.object({
      limit: pageLimit("keys", 100).meta(words("The most keys in a page.", 100)),
      cursor,
    }),
  ),
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({
          keys: z.array(key).meta(words("The keys.")),
          nextCursor,
        })
        .meta({ id: "ApiKeyList" }),
    summary: "List an application's keys",
    description:
      "Returns a page of keys, oldest first, including revoked ones. An administration key gets only the keys of " +
      "its modes.",
    returns: "A page of keys. A key itself is not shown; `hint` identifies it.",
    example: () => ({
      output: {
        keys: [{ ...exampleKey, name: "Backend", revokedAt: null, lastUsedOn: "2026-01-20" }],
        nextCursor: null,
      },
    }),
  }),
  handler: (admin, { params, query }) => listKeys(admin, params.appId, query, onlyModeOf(admin)),
});
